import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

const built = (path: string): string => JSON.stringify(new URL(`../../dist/pod-network/${path}`, import.meta.url).href);

/** Runs in network and mount namespaces of its own, so that nothing changes on the machine. Prints what it has seen as JSON. */
const scenario = `
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
const { PodNetwork } = await import(${built("pod-network.js")});
const { routerRules, machineRules } = await import(${built("service-rules.js")});
const { runCommand } = await import(${built("network-commands.js")});
const { startDnsServer } = await import(${built("../cluster-dns/dns-server.js")});
const { NameIndex } = await import(${built("../cluster-dns/name-index.js")});
const clock = { now: Date.now, monotonic: () => performance.now(), setTimer: (ms, callback) => { const timer = setTimeout(callback, ms); return { cancel: () => clearTimeout(timer) }; } };
const open = () => PodNetwork.open({ dataDir: "/data", podNetwork: "10.70", serviceNetwork: "10.134", log: { warn: console.error } });
const state = async () => (await runCommand(["ip", "-oneline", "link"])) + (await runCommand(["ip", "netns"])) + (await runCommand(["nft", "list", "tables"]));
const before = await state();
let network = await open();
await network.attach("a", "10.70.0.1");
await network.attach("b", "10.70.0.2", { "net/ipv4/ip_local_port_range": "40000 40001" });
// Found again after a restart, by other instances.
network = await open();
await network.attach("a", "10.70.0.1");
const api = createServer((request, response) => response.end("api")).listen(16443, "127.0.0.1");
const secret = createServer((request, response) => response.end("secret")).listen(16444, "127.0.0.1");
await Promise.all([once(api, "listening"), once(secret, "listening")]);
const service = (name, clusterIP, ports, rest = {}) => ({ metadata: { name, namespace: "n" }, spec: { clusterIP, ports, ...rest } });
const slice = (name, address, port) => ({
  metadata: { name, namespace: "n", labels: { "kubernetes.io/service-name": name } },
  addressType: "IPv4",
  ports: [{ name: "", port, protocol: "TCP" }],
  endpoints: [{ addresses: [address], conditions: { ready: true } }],
});
const { names } = network;
const dns = await startDnsServer({ address: names.nodeAddress, clients: names.pods, networks: names, index: () => new NameIndex(sources), upstreams: () => [], clock });
const many = Array.from({ length: 100 }, (_, index) => ({ addresses: ["10.70.1." + (index + 1)], hostname: "db-" + index }));
const sources = {
  services: [
    service("kube-dns", "10.134.0.53", [{ name: "dns", port: 53, protocol: "UDP" }, { name: "dns-tcp", port: 53 }]),
    service("db", "None", [{ port: 5432 }]),
    service("alias", "", [], { type: "ExternalName", externalName: "web.n.svc.cluster.local" }),
    service("web", "10.134.0.9", [{ port: 80, nodePort: 30080 }]),
    service("empty", "10.134.0.10", [{ port: 80 }]),
    service("kubernetes", "10.134.0.1", [{ port: 443 }]),
  ],
  slices: [
    { ...slice("kube-dns", names.nodeAddress), ports: [{ name: "dns", port: dns.udpPort, protocol: "UDP" }, { name: "dns-tcp", port: dns.tcpPort, protocol: "TCP" }] },
    { ...slice("db", ""), endpoints: many },
    slice("web", "10.70.0.1", 80), slice("kubernetes", "127.0.0.1", 16443),
  ],
  hostPorts: [{ port: 8081, protocol: "TCP", target: { host: "10.70.0.1", port: 80 } }],
};
await runCommand(["ip", "netns", "exec", names.router, "nft", "-f", "-"], routerRules(names, sources));
await runCommand(["nft", "-f", "-"], machineRules(names, sources, 16443));
const inPod = (uid) => ["nsenter", "--net=" + network.path(uid)];
// A user without privileges may listen on port 80.
const source = 'require("http").createServer((request, response) => response.end(request.socket.remoteAddress)).listen(80, () => console.log("listening"))';
const server = spawn("nsenter", [...inPod("a").slice(1), "setpriv", "--reuid=65534", "--clear-groups", process.execPath, "-e", source], { stdio: ["ignore", "pipe", "inherit"] });
await once(server.stdout, "data");
// fetch takes about three times the CPU time.
const get = 'const { get } = require("http"); get(process.argv[1], { signal: AbortSignal.timeout(30000) }, (response) => response.on("data", (part) => process.stdout.write(String(part).replace("::ffff:", "")))).on("error", (error) => process.stdout.write(error.cause?.name ?? error.code))';
const fetched = (where, url) => runCommand([...where, process.execPath, "-e", get, url]);
const resolving = 'const { Resolver } = require("dns").promises; const resolver = new Resolver(); resolver.setServers([process.argv[1]]); resolver[process.argv[2]](process.argv[3]).then((found) => found, (error) => error.code).then((found) => process.stdout.write(JSON.stringify(found)))';
const resolved = async (where, method, name, server = "10.134.0.53") => JSON.parse(await runCommand([...where, process.execPath, "-e", resolving, server, method, name]));
const found = {
  service: await resolved(inPod("b"), "resolve4", "web.n.svc.cluster.local"),
  fromMachine: await resolved([], "resolve4", "web.n.svc.cluster.local"),
  // Longer than a datagram: the client asks again over TCP.
  headless: (await resolved(inPod("a"), "resolve4", "db.n.svc.cluster.local")).length,
  host: await resolved(inPod("a"), "resolve4", "db-7.db.n.svc.cluster.local"),
  alias: await resolved(inPod("b"), "resolve4", "alias.n.svc.cluster.local"),
  reverse: await resolved(inPod("b"), "reverse", "10.134.0.9"),
  unknown: await resolved(inPod("b"), "resolve4", "unknown.n.svc.cluster.local"),
  outside: await resolved(inPod("b"), "resolve4", "example.com"),
};
const seen = {
  podFromMachine: await fetched([], "http://10.70.0.1/"),
  podFromPod: await fetched(inPod("b"), "http://10.70.0.1/"),
  service: await fetched(inPod("b"), "http://10.134.0.9/"),
  serviceOfItself: await fetched(inPod("a"), "http://10.134.0.9/"),
  serviceFromMachine: await fetched([], "http://10.134.0.9/"),
  withoutEndpoints: await fetched(inPod("b"), "http://10.134.0.10/"),
  nodePort: await fetched(inPod("b"), "http://10.70.255.254:30080/"),
  nodePortOnLoopback: await fetched([], "http://127.0.0.1:30080/"),
  hostPort: await fetched([], "http://127.0.0.1:8081/"),
  apiServer: await fetched(inPod("b"), "http://10.134.0.1:443/"),
  otherLoopbackPort: await fetched(inPod("b"), "http://10.70.255.254:16444/"),
  parameter: (await runCommand([...inPod("b"), "cat", "/proc/sys/net/ipv4/ip_local_port_range"])).trim(),
};
server.kill();
await once(server, "exit");
await dns.stop();
api.close();
secret.close();
await network.close();
const whileUsed = await runCommand(["ip", "netns"]);
await network.detachOthers((uid) => uid === "b");
await network.detach("b");
await network.close();
process.stdout.write(JSON.stringify({ seen, names: found, before, whileUsed, after: await state() }));
`;

test.runIf(process.getuid?.() === 0)(
  "connects Pods, Services, the machine and the API server, and leaves nothing behind",
  () => {
    const setup = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && exec "$@"';
    const program = [process.execPath, "--input-type=module", "-e", scenario];
    const output = execFileSync("unshare", ["--net", "--mount", "sh", "-c", setup, "sh", ...program], {
      encoding: "utf8",
      timeout: 240_000,
    });
    const { seen, names, before, whileUsed, after } = JSON.parse(output) as Readonly<Record<string, unknown>>;
    expect(seen).toEqual({
      podFromMachine: "10.70.255.254",
      podFromPod: "10.70.0.2",
      service: "10.70.0.2",
      serviceOfItself: "10.70.255.253",
      serviceFromMachine: "10.70.255.254",
      withoutEndpoints: "ECONNREFUSED",
      nodePort: "10.70.0.2",
      nodePortOnLoopback: "10.70.255.254",
      hostPort: "10.70.255.254",
      apiServer: "api",
      otherLoopbackPort: "ECONNREFUSED",
      parameter: "40000\t40001",
    });
    expect(names).toEqual({
      service: ["10.134.0.9"],
      fromMachine: ["10.134.0.9"],
      headless: 100,
      host: ["10.70.1.8"],
      alias: ["10.134.0.9"],
      reverse: ["web.n.svc.cluster.local"],
      unknown: "ENOTFOUND",
      outside: "ESERVFAIL",
    });
    expect(whileUsed).toContain("-a");
    expect(after).toBe(before);
  },
);
