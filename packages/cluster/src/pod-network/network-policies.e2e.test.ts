import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

const built = (path: string): string => JSON.stringify(new URL(`../../dist/pod-network/${path}`, import.meta.url).href);

/** Runs in network and mount namespaces of its own, so that nothing changes on the machine. Prints what it has seen as JSON. */
const scenario = `
import { spawn } from "node:child_process";
import { once } from "node:events";
const { PodNetwork } = await import(${built("pod-network.js")});
const { routerRules, machineRules } = await import(${built("service-rules.js")});
const { policyRules } = await import(${built("policy-rules.js")});
const { policyTable } = await import(${built("policy-table.js")});
const { runCommand } = await import(${built("network-commands.js")});
const network = await PodNetwork.open({ dataDir: "/data", podNetwork: "10.70", serviceNetwork: "10.134", log: { warn: console.error } });
const { names } = network;
const address = { server: "10.70.0.1", client: "10.70.0.2", other: "10.70.0.3" };
for (const [name, own] of Object.entries(address)) await network.attach(name, own);
const inRouter = (input) => runCommand(["ip", "netns", "exec", names.router, "nft", "-f", "-"], input);
const services = {
  services: [{ metadata: { name: "web", namespace: "a" }, spec: { clusterIP: "10.134.0.9", ports: [{ port: 8000 }] } }],
  slices: [{
    metadata: { name: "web", namespace: "a", labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    ports: [{ name: "", port: 80, protocol: "TCP" }],
    endpoints: [{ addresses: [address.server], conditions: { ready: true } }],
  }],
  hostPorts: [],
};
await inRouter(routerRules(names, services));
await runCommand(["nft", "-f", "-"], machineRules(names, services, 16443));
const pods = [
  { namespace: "a", address: address.server, labels: { app: "server" }, ports: [{ name: "web", protocol: "TCP", port: 80 }] },
  { namespace: "a", address: address.client, labels: { app: "client" }, ports: [] },
  { namespace: "b", address: address.other, labels: { app: "other" }, ports: [] },
];
const namespaces = new Map([["a", { team: "one" }], ["b", { team: "two" }], ["kube-system", { team: "system" }]]);
const finish = (steps) => { for (;;) { const { done, value } = steps.next(); if (done) return value; } };
const enforce = (policies, known = pods) => inRouter(finish(policyTable(names, finish(policyRules({ pods: known, namespaces, policies, dns: { address: names.nodeAddress, udpPort: 5300, tcpPort: 5300 } })))));
const hostile = 'x"; } flush ruleset; #';
const policy = (spec, name = hostile) => ({ namespace: "a", name, spec });
const server = { matchLabels: { app: "server" } };
const ingress = (...rules) => [policy({ podSelector: server, policyTypes: ["Ingress"], ingress: rules })];
const egress = (...rules) => [policy({ podSelector: { matchLabels: { app: "client" } }, policyTypes: ["Egress"], egress: rules })];
const inPod = (name) => ["nsenter", "--net=" + network.path(name)];
const source = 'for (const port of [80, 81]) require("http").createServer((request, response) => response.end("yes")).listen(port, () => console.log(port))';
const listening = spawn("nsenter", [...inPod("server").slice(1), process.execPath, "-e", source], { stdio: ["ignore", "pipe", "inherit"] });
for (let lines = ""; lines.split("\\n").length < 3; lines += (await once(listening.stdout, "data"))[0]);
// fetch takes about three times the CPU time.
const get = 'const { get } = require("http"); get(process.argv[1], { signal: AbortSignal.timeout(+process.argv[2]) }, (response) => response.on("data", (part) => process.stdout.write(part))).on("error", (error) => process.stdout.write(error.cause?.name ?? error.code))';
const fetched = (where, url = "http://10.70.0.1/", ms = 60000) => runCommand([...where, process.execPath, "-e", get, url, String(ms)]);
const seen = {};
// In place of the DNS server, and another server of the node.
const { createServer } = await import("node:http");
const nodeServers = [5300, 5301].map((port) => createServer((request, response) => response.end("yes")).listen(port, names.nodeAddress));
await Promise.all(nodeServers.map((each) => once(each, "listening")));
// From the client, from the other namespace, from the client through the Service, and from the node.
const record = async (title, policies, known) => {
  await enforce(policies, known);
  seen[title] = (await Promise.all([
    fetched(inPod("client")), fetched(inPod("other")), fetched(inPod("client"), "http://10.134.0.9:8000/"), fetched([]),
  ])).map((text) => (text === "EHOSTUNREACH" ? "no" : text)).join(" ");
};
await record("without policies", []);
await record("deny all", [policy({ podSelector: {} })]);
await record("podSelector", ingress({ from: [{ podSelector: { matchExpressions: [{ key: "app", operator: "In", values: ["client"] }] } }] }));
await record("namespaceSelector", ingress({ from: [{ namespaceSelector: { matchLabels: { team: "two" } } }] }));
await record("ipBlock", ingress({ from: [{ ipBlock: { cidr: "10.70.0.0/24", except: ["10.70.0.2/31"] } }] }));
await record("ipBlock without exceptions", ingress({ from: [{ ipBlock: { cidr: "0.0.0.0/0" } }] }));
await record("named port", ingress({ ports: [{ port: "web" }] }));
await record("port of the Service", ingress({ ports: [{ port: 8000 }] }));
await record("port range", ingress({ ports: [{ port: 79, endPort: 81 }, { port: 80, protocol: "SCTP" }] }));
await record("egress denied", egress());
await record("egress to another port", egress({ to: [{ podSelector: server }], ports: [{ port: 81 }] }));
await record("egress to a named port", egress({ to: [{ podSelector: server }], ports: [{ port: "web" }] }));
await record("egress allowed, ingress denied", [...egress({}), policy({ podSelector: server }, "other")]);
await record("additive", [...ingress(), policy({ podSelector: server, ingress: [{ from: [{ podSelector: {} }] }] }, "other")]);
const dns = { namespaceSelector: { matchLabels: { team: "system" } }, podSelector: { matchLabels: { "k8s-app": "kube-dns" } } };
const recordNode = async (title, policies) => {
  await enforce(policies);
  seen[title] = (await Promise.all(
    [5300, 5301].map((port) => fetched(inPod("client"), "http://" + names.nodeAddress + ":" + port + "/")),
  )).map((text) => (text === "EHOSTUNREACH" ? "no" : text)).join(" ");
};
await recordNode("egress to DNS", egress({ to: [dns], ports: [{ port: 53, protocol: "UDP" }, { port: 53 }] }));
await recordNode("egress to another port of DNS", egress({ to: [dns], ports: [{ port: 80 }] }));
for (const each of nodeServers) { each.closeAllConnections(); each.close(); }
const before = await runCommand(["ip", "netns", "exec", names.router, "nft", "list", "ruleset"]);
const rejected = await inRouter("table ip keelson_policies {}\\ndelete table ip keelson_policies\\ntable ip keelson_policies { chain x { nonsense } }").then(() => "applied", () => "rejected");
const after = await runCommand(["ip", "netns", "exec", names.router, "nft", "list", "ruleset"]);
await record("policy deleted", []);
// A Pod that no rules consider yet.
await enforce([], pods.slice(0, 2));
const unknown = await fetched(inPod("other"), "http://10.70.0.1/", 1000);
await record("considered", []);
listening.kill();
await once(listening, "exit");
for (const name of Object.keys(address)) await network.detach(name);
await network.close();
process.stdout.write(JSON.stringify({ seen, rejected, isKept: before === after, unknown, left: await runCommand(["ip", "netns"]) }));
`;

test.runIf(process.getuid?.() === 0)("allows and rejects connections as NetworkPolicies require", () => {
  const setup = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && exec "$@"';
  const program = [process.execPath, "--input-type=module", "-e", scenario];
  const output = execFileSync("unshare", ["--net", "--mount", "sh", "-c", setup, "sh", ...program], {
    encoding: "utf8",
    timeout: 240_000,
  });
  expect(JSON.parse(output)).toEqual({
    // Client, other namespace, client through the Service, node.
    seen: {
      "without policies": "yes yes yes yes",
      "deny all": "no no no yes",
      podSelector: "yes no yes yes",
      namespaceSelector: "no yes no yes",
      ipBlock: "no no no yes",
      "ipBlock without exceptions": "yes yes yes yes",
      "named port": "yes yes yes yes",
      "port of the Service": "no no no yes",
      "port range": "yes yes yes yes",
      "egress denied": "no yes no yes",
      "egress to another port": "no yes no yes",
      "egress to a named port": "yes yes yes yes",
      "egress allowed, ingress denied": "no no no yes",
      additive: "yes no yes yes",
      // The DNS server, another server of the node.
      "egress to DNS": "yes no",
      "egress to another port of DNS": "no no",
      "policy deleted": "yes yes yes yes",
      considered: "yes yes yes yes",
    },
    rejected: "rejected",
    isKept: true,
    unknown: "TimeoutError",
    left: "",
  });
});
