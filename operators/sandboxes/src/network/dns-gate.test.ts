import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { type Answer, decode, encode, type Packet } from "dns-packet";
import { afterEach, describe, expect, it } from "vitest";
import { type DnsGate, startDnsGate } from "./dns-gate.ts";
import type { NetworkPolicy } from "./network-policy.ts";

const sockets: Socket[] = [];
const gates: DnsGate[] = [];
const denied: string[] = [];
const admitted: (readonly [addresses: readonly string[], seconds: number])[] = [];

afterEach(async () => {
  for (const gate of gates.splice(0)) await gate.stop();
  for (const socket of sockets.splice(0)) socket.close();
  denied.length = 0;
  admitted.length = 0;
});

async function bind(): Promise<Socket> {
  const socket = createSocket("udp4");
  sockets.push(socket);
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return socket;
}

const portOf = (socket: Socket): number => (socket.address() as AddressInfo).port;

/** A name server that answers with what `answer` returns, in order. Returns its address and the names that it was asked. */
async function startServer(answer: (query: Packet) => readonly Packet[]): Promise<{ address: string; asked: string[] }> {
  const socket = await bind();
  const asked: string[] = [];
  socket.on("message", (message, { port, address }) => {
    const query = decode(message);
    asked.push(query.questions?.[0]?.name ?? "");
    for (const each of answer(query)) socket.send(encode(each), port, address);
  });
  return { address: `127.0.0.1:${portOf(socket)}`, asked };
}

const records = (query: Packet, ...data: readonly string[]): Packet => {
  const [{ name } = { name: "" }] = query.questions ?? [];
  const answers = data.map((address): Answer => ({ type: "A", name, ttl: 1000, data: address }));
  return { type: "response", ...(query.id !== undefined && { id: query.id }), questions: query.questions ?? [], answers };
};

/** Starts a resolver and returns a function that asks it. */
async function start(policy: NetworkPolicy, ...servers: readonly string[]) {
  const free = await bind();
  const port = portOf(free);
  sockets.splice(sockets.indexOf(free), 1);
  await new Promise<void>((resolve) => free.close(() => resolve()));
  const admit = (addresses: readonly string[], _rules: unknown, seconds: number): Promise<void> => {
    admitted.push([addresses, seconds]);
    return Promise.resolve();
  };
  const onDenied = (name: string): void => void denied.push(name);
  gates.push(await startDnsGate({ address: "127.0.0.1", port, policy, servers, admit, onDenied, clock: systemClock }));
  const client = await bind();
  return async (name: string, type: "A" | "AAAA" = "A", additionals: readonly Answer[] = []) => {
    // Not a DNS message: ignored.
    client.send(Buffer.from("x"), port, "127.0.0.1");
    client.send(
      encode({ type: "query", id: 7, questions: [{ type, name }], additionals: [...additionals] }),
      port,
      "127.0.0.1",
    );
    const [message] = (await once(client, "message")) as [Buffer];
    const { rcode, answers = [], id } = decode(message) as ReturnType<typeof decode> & { rcode: string };
    expect(id).toBe(7);
    return { rcode, data: answers.flatMap((each) => (each.type === "A" ? [each.data] : [])) };
  };
}

const allow: NetworkPolicy = { mode: "allowList", allow: [{ host: "good.example" }, { host: "*.good.example" }] };

describe("the resolver of a sandbox", () => {
  it("answers listed names after their addresses were admitted, and refuses and reports others without asking", async () => {
    const { address, asked } = await startServer((query) => [records(query, "203.0.113.10", "203.0.113.11")]);
    const ask = await start(allow, address);
    const addresses = ["203.0.113.10", "203.0.113.11"];
    expect(await ask("Good.Example")).toEqual({ rcode: "NOERROR", data: addresses });
    expect(admitted).toEqual([[addresses, 1000]]);
    expect((await ask("a.good.example")).data).toEqual(addresses);
    expect(await ask("evil.example")).toEqual({ rcode: "REFUSED", data: [] });
    expect(denied).toEqual(["evil.example"]);
    expect(asked).toEqual(["Good.Example", "a.good.example"]);
  });

  it("refuses names with characters that look like those of a listed name, and reports none of them", async () => {
    const { address, asked } = await startServer((query) => [records(query, "203.0.113.66")]);
    const ask = await start({ mode: "allowList", allow: [{ host: "kernel.example" }, { host: "*.kernel.example" }] }, address);
    // U+212A is a k in lower case.
    for (const name of ["\u212aernel.example", "a.\u212aernel.example", "\u001b[2J.kernel.example"])
      expect(await ask(name)).toEqual({ rcode: "REFUSED", data: [] });
    expect(asked).toEqual([]);
    expect(new Set(denied)).toEqual(new Set(["(invalid name)"]));
  });

  it("passes on nothing of a query but its question", async () => {
    const received: Packet[] = [];
    const { address } = await startServer((query) => {
      received.push(query);
      return [records(query, "203.0.113.10")];
    });
    const ask = await start(allow, address);
    const hidden: Answer = { type: "TXT", name: "secret.example", ttl: 1, data: "secret" };
    const extended = { udpPayloadSize: 65_000, extendedRcode: 0, ednsVersion: 0, flags: 0, flag_do: false, options: [] };
    await ask("good.example", "A", [hidden, { type: "OPT", name: ".", ...extended }]);
    expect(received[0]?.questions).toMatchObject([{ name: "good.example", type: "A" }]);
    expect(received[0]?.additionals).toMatchObject([{ type: "OPT", udpPayloadSize: 1232, options: [] }]);
  });

  it("refuses a listed name that resolves to a private address", async () => {
    const { address } = await startServer((query) => [records(query, "203.0.113.10", "169.254.169.254")]);
    const ask = await start(allow, address);
    expect(await ask("good.example")).toEqual({ rcode: "REFUSED", data: [] });
    expect([admitted, denied]).toEqual([[], ["good.example"]]);
  });

  it("answers every name for internet, and no name has an IPv6 address", async () => {
    const { address, asked } = await startServer((query) => [records(query, "10.0.0.1")]);
    const ask = await start({ mode: "internet", allow: [] }, address);
    expect((await ask("any.example")).data).toEqual(["10.0.0.1"]);
    expect(await ask("any.example", "AAAA")).toEqual({ rcode: "NOERROR", data: [] });
    expect(asked).toEqual(["any.example"]);
  });

  it("ignores answers to other questions, asks the next server if one cannot be reached, and reports failure if none can", async () => {
    const { address } = await startServer((query) => [
      { ...records(query, "203.0.113.66"), id: (query.id ?? 0) + 1 },
      { ...records(query, "203.0.113.66"), questions: [{ type: "A", name: "other.example" }] },
      records(query, "203.0.113.10"),
    ]);
    const ask = await start(allow, "127.0.0.1:1", address);
    expect((await ask("good.example")).data).toEqual(["203.0.113.10"]);
    const alone = await start(allow, "127.0.0.1:1");
    expect(await alone("good.example")).toEqual({ rcode: "SERVFAIL", data: [] });
  });
});
