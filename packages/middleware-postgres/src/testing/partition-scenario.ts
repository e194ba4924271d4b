const built = (path: string): string => JSON.stringify(new URL(`../../../../${path}`, import.meta.url).href);

/**
 * A program that separates the primary of a quorum from its replicas. It runs in network and mount namespaces of its own, where each Pod
 * has a network namespace, so that nothing changes on the machine. Its arguments are a folder and the path of `postgres`. Prints what
 * happened in both modes as JSON: times of CLOCK_MONOTONIC in milliseconds.
 */
export const partitionScenario = `
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
const { PodNetwork } = await import(${built("packages/cluster/dist/pod-network/pod-network.js")});
const { runCommand } = await import(${built("packages/cluster/dist/pod-network/network-commands.js")});
const { createAgentClient } = await import(${built("operators/middleware/dist/agent/agent-client.js")});
const { default: pg } = await import(${built("node_modules/pg/esm/index.mjs")});
const [folder, program] = process.argv.slice(1);
const password = "secret", token = "token", deadlineMs = 240_000;
const now = () => Number(process.hrtime.bigint() / 1_000n) / 1_000;
const parameters = { shared_buffers: "16MB", max_connections: "40", wal_keep_size: "64MB" };
const network = await PodNetwork.open({ dataDir: "/data", podNetwork: "10.71", serviceNetwork: "10.135", log: { warn: console.error } });
const client = createAgentClient({ programPort: 5_432, timeoutMs: 60_000, roleTimeoutMs: 3_000 });
const pods = ["pod-0", "pod-1", "pod-2"].map((name, index) => ({ name, host: "10.71.0." + (index + 1) }));
const enter = ({ name }) => ["--net=" + network.path(name)];

async function start(pod) {
  await network.attach(pod.name, pod.host);
  const home = folder + "/" + pod.name;
  mkdirSync(home, { mode: 0o755 });
  writeFileSync(home + "/parameters.json", JSON.stringify({ hash: "h0", parameters }));
  const flags = { engine: "postgres", program, "program-port": 5432, port: 50052, config: home + "/parameters.json", "data-dir": home };
  const args = Object.entries(flags).map(([name, value]) => "--" + name + "=" + value);
  const env = { ...process.env, POD_NAME: pod.name, POD_IP: pod.host, AGENT_TOKEN: token, PROGRAM_PASSWORD: password };
  const main = ${JSON.stringify(new URL("../../dist/main.js", import.meta.url).pathname)};
  pod.agent = spawn("nsenter", [...enter(pod), process.execPath, main, ...args], { env, stdio: ["ignore", "ignore", "inherit"] });
}
const call = async (pod, order) => {
  const result = await client.call(pod.host, { token }, { token: "t", ...order });
  if (result.kind !== "done") throw new Error(pod.name + ": " + order.method + ": " + JSON.stringify(result));
};
async function until(what, reached) {
  for (const end = now() + deadlineMs; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const found = await reached().catch(() => undefined);
    if (found) return found;
    if (now() > end) throw new Error("timeout: " + what);
  }
}
const roleOf = (pod) => client.role(pod.host, { token });
const follows = (pod, primary) => until(pod.name + " follows " + primary.name, async () => {
  const role = await roleOf(pod);
  return role?.role === "replica" && role.isInSync && role.primaryHost === primary.host;
});

// Inserts rows at the hosts, in turn, and prints the acknowledged ones with their time.
const writing = \`
const { default: pg } = await import(${built("node_modules/pg/esm/index.mjs")});
const [name, ...hosts] = process.argv.slice(1);
let number = 0;
for (;;) for (const host of hosts) {
  const client = new pg.Client({ host, user: "postgres", password: "secret", connectionTimeoutMillis: 1500 });
  client.on("error", () => {});
  try {
    await client.connect();
    for (;;) {
      const row = name + "-" + number++;
      await Promise.race([client.query("INSERT INTO rows VALUES ($1)", [row]), new Promise((_, no) => setTimeout(no, 3000, new Error("no answer")))]);
      console.log(row + " " + Number(process.hrtime.bigint() / 1_000n) / 1_000 + " " + host);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  } catch {} finally { client.connection.stream.destroy(); }
  await new Promise((resolve) => setTimeout(resolve, 20));
}\`;
function write(name, pod, hosts) {
  const command = ["--input-type=module", "-e", writing, name, ...hosts];
  const child = spawn("nsenter", [...enter(pod), process.execPath, ...command], { stdio: ["ignore", "pipe", "inherit"] });
  const acknowledged = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    const [row, at, host] = line.split(" ");
    acknowledged.push({ row, at: Number(at), host });
  });
  return { acknowledged, stop: async () => { child.kill("SIGKILL"); await once(child, "close"); } };
}
async function query(host, text) {
  const connection = new pg.Client({ host, user: "postgres", password, connectionTimeoutMillis: 3000 });
  await connection.connect();
  try { return (await connection.query(text)).rows; } finally { await connection.end(); }
}
const nft = (text) => runCommand(["ip", "netns", "exec", network.names.router, "nft", "-f", "-"], text);
const cut = ({ host }) => nft("table inet cut { chain forward { type filter hook forward priority 0; ip saddr " + host + " drop; ip daddr " + host + " drop; }\\n}\\n");
const heal = () => nft("delete table inet cut");

async function partition(mode, primary) {
  const others = pods.filter((pod) => pod !== primary);
  // One client is on the side of the primary, the other on that of the replicas.
  const inside = write(mode + "-inside", primary, [primary.host]);
  const outside = write(mode + "-outside", others[0], pods.map(({ host }) => host));
  await until("writes", async () => inside.acknowledged.length > 50 && outside.acknowledged.length > 50);
  await cut(primary);
  const cutAt = now();
  const first = await until("another primary", async () => outside.acknowledged.find(({ host }) => host !== primary.host));
  const elected = pods.find(({ host }) => host === first.host);
  await until("more writes", async () => outside.acknowledged.at(-1).at > first.at + 2_000);
  await heal();
  await follows(primary, elected);
  await inside.stop();
  await outside.stop();
  const other = others.find((pod) => pod !== elected);
  await follows(other, elected);
  const stored = new Set((await query(elected.host, "SELECT id FROM rows")).map(({ id }) => id));
  const all = [...inside.acknowledged, ...outside.acknowledged];
  const roles = await Promise.all(pods.map(async (pod) => (await roleOf(pod))?.role));
  return {
    elected,
    seen: {
      acknowledged: all.length,
      lost: all.filter(({ row }) => !stored.has(row)).map(({ at }) => at - cutAt),
      lastOfOld: Math.max(...all.filter(({ host }) => host === primary.host).map(({ at }) => at)) - cutAt,
      firstOfNew: first.at - cutAt,
      primaries: roles.filter((role) => role === "primary").length,
    },
  };
}

try {
  for (const pod of pods) await start(pod);
  const [first] = pods;
  for (const pod of pods) await until(pod.name, () => roleOf(pod));
  await call(first, { method: "AssignRole", role: "primary", primary: first.host, epoch: 1 });
  for (const pod of pods.slice(1)) {
    await call(pod, { method: "AssignRole", role: "replica", primary: first.host, epoch: 1 });
    await follows(pod, first);
  }
  const members = pods.map(({ name, host }) => ({ name, host }));
  const setMembers = (pod) => call(pod, { method: "SetMembers", key: "m1", members, maxLagBytes: 0 });
  // The primary is the last one, and repeats until a majority has granted its lease.
  for (const pod of pods.toReversed()) await until(pod.name + " is a member", () => setMembers(pod).then(() => true));
  for (const pod of pods) await until(pod.name + " votes", async () => (await roleOf(pod))?.members === "m1");
  await query(first.host, "CREATE TABLE rows (id text PRIMARY KEY)");
  const set = async (hash, more) => {
    for (const pod of pods) await call(pod, { method: "ReloadConfig", parameters: { ...parameters, ...more }, hash });
  };
  await set("h1", { synchronous_standby_names: "ANY 1 (*)" });
  const synchronous = await partition("sync", first);
  await set("h2", {});
  const asynchronous = await partition("async", synchronous.elected);
  console.log(JSON.stringify({ synchronous: synchronous.seen, asynchronous: asynchronous.seen }));
} finally {
  for (const { agent } of pods) agent?.kill("SIGTERM");
  await Promise.all(pods.map(({ agent }) => agent?.exitCode ?? (agent && once(agent, "close"))));
  client.close();
}
process.exit(0);
`;
