import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { queryNameServers } from "@keelson/execution/dns";
import { type Answer, decode, encode, type Packet, type RecordType } from "dns-packet";
import { expect, onTestFinished, test } from "vitest";
import { type DnsServer, type DnsServerOptions, startDnsServer } from "./dns-server.ts";
import { NameIndex } from "./name-index.ts";
import { RequestLimits } from "./request-limits.ts";

const address = "127.0.0.1";
const endpoints = Array.from({ length: 100 }, (_, index) => ({ addresses: [`10.70.1.${index}`] }));
const index = new NameIndex({
  services: [
    { apiVersion: "v1", kind: "Service", metadata: { name: "many", namespace: "n" }, spec: { clusterIP: "None" } },
    {
      ...{ apiVersion: "v1", kind: "Service", metadata: { name: "outside", namespace: "n" } },
      spec: { type: "ExternalName", externalName: "example.com" },
    },
  ],
  slices: [
    {
      ...{ apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", addressType: "IPv4", endpoints },
      metadata: { name: "many", namespace: "n", labels: { "kubernetes.io/service-name": "many" } },
    },
  ],
});

async function serve(options: Partial<DnsServerOptions> = {}): Promise<DnsServer> {
  const networks = { pods: "10.70.0.0/16", services: "10.134.0.0/16" };
  const common = { address, clients: "127.0.0.0/8", networks, index: () => index, clock: systemClock };
  const server = await startDnsServer({ ...common, upstreams: () => [], ...options });
  onTestFinished(() => server.stop());
  return server;
}

/** A name server that answers every question with one address. Collects the names in questions. */
async function upstream(): Promise<{ readonly server: string; readonly names: readonly string[] }> {
  const names: string[] = [];
  const socket = createSocket("udp4");
  socket.on("message", (message, { address: client, port }) => {
    const { id = 0, questions = [] } = decode(message);
    const name = questions[0]?.name ?? "";
    names.push(name);
    socket.send(encode({ type: "response", id, questions, answers: [{ type: "A", name, data: "192.0.2.7" }] }), port, client);
  });
  socket.bind(0, "127.0.0.2");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  return { server: `127.0.0.2:${socket.address().port}`, names };
}

async function ask(
  server: DnsServer,
  name: string,
  {
    transport = "udp",
    type = "A",
    ...rest
  }: Partial<Omit<Packet, "type">> & { transport?: "udp" | "tcp"; type?: RecordType } = {},
): Promise<ReturnType<typeof decode>> {
  const port = transport === "udp" ? server.udpPort : server.tcpPort;
  const message = encode({ ...rest, type: "query", id: 7, questions: [{ type, name }] });
  const answer = await queryNameServers(message, { servers: [`${address}:${port}`], clock: systemClock, transport });
  return decode(Buffer.from(answer ?? []));
}

const codeOf = ({ flags = 0 }: Packet): number => flags & 15;
const large: Answer = {
  ...{ type: "OPT", name: ".", udpPayloadSize: 4096 },
  ...{ extendedRcode: 0, ednsVersion: 0, flags: 0, flag_do: false, options: [] },
};

test("an answer that does not fit into a datagram is truncated, and complete over TCP", async () => {
  const server = await serve();
  for (const additionals of [[], [large]]) {
    const short = await ask(server, "many.n.svc.cluster.local", { additionals });
    expect({ isTruncated: short.flag_tc, answers: short.answers }).toEqual({ isTruncated: true, answers: [] });
  }
  const whole = await ask(server, "many.n.svc.cluster.local", { transport: "tcp" });
  expect({ isTruncated: whole.flag_tc, answers: whole.answers?.length }).toEqual({ isTruncated: false, answers: 100 });
  expect(whole.flag_aa).toBe(true);
});

test("names outside the cluster are forwarded, those of the cluster never", async () => {
  const { server: other, names } = await upstream();
  const server = await serve({ upstreams: () => [other] });
  expect((await ask(server, "example.com")).answers).toMatchObject([{ type: "A", data: "192.0.2.7" }]);
  expect(codeOf(await ask(server, "gone.n.svc.cluster.local"))).toBe(3);
  expect(codeOf(await ask(server, "1.0.70.10.in-addr.arpa", { type: "PTR" }))).toBe(3);
  expect(codeOf(await ask(server, "1.0.134.10.in-addr.arpa", { type: "PTR" }))).toBe(3);
  expect((await ask(server, "outside.n.svc.cluster.local")).answers).toMatchObject([
    { type: "CNAME", data: "example.com" },
    { type: "A", name: "example.com", data: "192.0.2.7" },
  ]);
  expect(names).toEqual(["example.com", "example.com"]);
});

test("requests that are not served", async () => {
  const server = await serve();
  expect(codeOf(await ask(server, "example.com"))).toBe(2);
  expect(codeOf(await ask(server, "cluster.local", { type: "AXFR", transport: "tcp" }))).toBe(5);
  expect(codeOf(await ask(server, "cluster.local", { flags: 2 << 11 }))).toBe(4);
});

test("malformed messages and responses are dropped, and the server continues", async () => {
  const server = await serve();
  const socket = createSocket("udp4");
  onTestFinished(() => void socket.close());
  for (const message of [Buffer.alloc(0), Buffer.from("x"), Buffer.alloc(600, 0xc0), encode({ type: "response", id: 1 })]) {
    socket.send(message, server.udpPort, address);
  }
  expect((await ask(server, "dns-version.cluster.local", { type: "TXT" })).answers).toHaveLength(1);
});

test("clients outside the network are not served", async () => {
  const server = await serve({ clients: "10.70.0.0/16" });
  const socket = connect(server.tcpPort, address).on("error", () => {});
  await once(socket, "close");
  expect(socket.bytesRead).toBe(0);
});

test("idle connections are closed", async () => {
  const server = await serve({ idleMs: 50 });
  const socket = connect(server.tcpPort, address).on("error", () => {});
  await once(socket, "close");
  expect(socket.bytesRead).toBe(0);
});

test("connections of a client beyond its limit are closed, the others stay", async () => {
  const server = await serve();
  const sockets = Array.from({ length: 20 }, () => connect(server.tcpPort, address).on("error", () => {}));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  await expect.poll(() => sockets.filter(({ closed }) => closed).length).toBe(4);
  for (const socket of sockets) socket.destroy();
  // The places of closed connections are free again.
  await expect
    .poll(
      async () =>
        (await ask(server, "dns-version.cluster.local", { type: "TXT", transport: "tcp" }).catch(() => undefined))?.answers,
    )
    .toHaveLength(1);
});

test("a client's requests are bounded at one time and per second, and all clients' together", () => {
  let now = 0;
  const clock = { ...systemClock, monotonic: () => now };
  const limits = new RequestLimits({ clock, perSecond: 3, perSource: 2, total: 3 });
  expect([limits.begin("a"), limits.begin("a"), limits.begin("a")]).toEqual([true, true, false]);
  expect([limits.begin("b"), limits.begin("b")]).toEqual([true, false]);
  limits.end("a");
  expect(limits.begin("a")).toBe(true);
  limits.end("a");
  expect(limits.begin("a")).toBe(false);
  now = 1000;
  expect(limits.begin("a")).toBe(true);
});
