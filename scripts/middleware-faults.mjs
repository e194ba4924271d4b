#!/usr/bin/env node
/*
 * A fault loop in the manner of Jepsen: real Redis or PostgreSQL with the agents of a quorum, no controller, and one fault after the other.
 * Every Pod has a network namespace. Clients append unique values and increment a register; the history is checked at the end. Needs root,
 * iproute2, nftables and the programs.
 *
 *   node scripts/middleware-faults.mjs --engine redis|postgres [--mode synchronous|asynchronous] [--minutes 15] [--seed 1]
 *
 * Prints one line per fault and a summary as JSON; the exit status is 1 if a check failed.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync, chmodSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { check, gapOf } from "./middleware-faults-history.mjs";
import { freeze, generator, processesOf, signal } from "./middleware-faults-processes.mjs";

const { values: flags } = parseArgs({
  options: {
    engine: { type: "string", default: "redis" },
    mode: { type: "string", default: "synchronous" },
    minutes: { type: "string", default: "15" },
    seed: { type: "string", default: "1" },
  },
});
const root = new URL("../", import.meta.url);
const inside = "KEELSON_FAULTS_FOLDER";
if (process.env[inside] === undefined) {
  // All processes and networks end with the namespaces. The shell reaps processes whose parents have been killed.
  const namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const prepare = ["sh", "-c", 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && { "$@" & wait $!; }', "sh"];
  const command = [...namespaces, ...prepare, process.execPath, ...process.argv.slice(1)];
  const folder = mkdtempSync(join(tmpdir(), "keelson-faults-"));
  chmodSync(folder, 0o755);
  const child = spawn("unshare", command, { stdio: "inherit", env: { ...process.env, [inside]: folder } });
  const [code] = await once(child, "exit");
  if (code === 0) rmSync(folder, { recursive: true, force: true });
  else process.stderr.write(`logs of the agents: ${folder}\n`);
  process.exit(code ?? 1);
}

const load = (path) => import(new URL(path, root).href);
const { PodNetwork } = await load("packages/cluster/dist/pod-network/pod-network.js");
const { runCommand } = await load("packages/cluster/dist/pod-network/network-commands.js");
const { createAgentClient } = await load("operators/middleware/dist/agent/agent-client.js");
const now = () => Number(process.hrtime.bigint() / 1_000n) / 1_000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const random = generator(Number(flags.seed));
const isRedis = flags.engine === "redis";
const isSynchronous = flags.mode === "synchronous";
const [password, token] = ["secret", "token"];
const engines = {
  redis: {
    port: 6_379,
    main: "operators/middleware/dist/agent/main.js",
    parameters: {
      appendonly: "yes",
      "repl-timeout": "10",
      ...(isSynchronous ? { "min-replicas-to-write": "1", "min-replicas-max-lag": "3" } : {}),
    },
  },
  postgres: {
    port: 5_432,
    main: "packages/middleware-postgres/dist/main.js",
    parameters: {
      ...{ shared_buffers: "16MB", max_connections: "40", wal_keep_size: "64MB" },
      ...(isSynchronous ? { synchronous_standby_names: "ANY 1 (*)" } : {}),
    },
  },
};
const engine = engines[flags.engine];
const folder = process.env[inside];
const network = await PodNetwork.open({
  dataDir: "/data",
  podNetwork: "10.72",
  serviceNetwork: "10.136",
  log: { warn: () => undefined },
});
const client = createAgentClient({ programPort: engine.port, timeoutMs: 30_000, roleTimeoutMs: 3_000 });
const pods = ["pod-0", "pod-1", "pod-2"].map((name, index) => ({
  name,
  host: `10.72.0.${index + 1}`,
  home: join(folder, name),
}));
const log = (line) => process.stderr.write(`${(now() / 1_000).toFixed(1)} ${line}\n`);

/** Runs the agent of a Pod, and starts it again whenever it ends, like a kubelet. */
async function run(pod) {
  await network.attach(pod.name, pod.host);
  mkdirSync(pod.home, { mode: 0o755 });
  writeFileSync(join(pod.home, "parameters.json"), JSON.stringify({ hash: "h0", parameters: engine.parameters }));
  const args = [
    new URL(engine.main, root).pathname,
    ...(isRedis ? [] : ["--engine=postgres"]),
    `--program-port=${engine.port}`,
    "--port=50052",
    `--config=${join(pod.home, "parameters.json")}`,
    `--data-dir=${pod.home}`,
  ];
  const env = { ...process.env, POD_NAME: pod.name, POD_IP: pod.host, AGENT_TOKEN: token, PROGRAM_PASSWORD: password };
  const start = () => {
    pod.agent = spawn("nsenter", [`--net=${network.path(pod.name)}`, process.execPath, ...args], {
      env,
      stdio: ["ignore", "ignore", "pipe"],
    });
    pod.agent.stderr.on("data", (chunk) => writeFileSync(join(folder, `${pod.name}.log`), chunk, { flag: "a" }));
    pod.agent.once("exit", () => setTimeout(start, 1_000));
  };
  start();
}

const roleOf = (pod) => client.role(pod.host, { token }).catch(() => undefined);
async function call(pod, order) {
  const result = await client.call(pod.host, { token }, { token: "t", ...order });
  if (result.kind !== "done") throw new Error(`${pod.name}: ${order.method}: ${JSON.stringify(result)}`);
}
async function until(what, reached, limitMs = 120_000) {
  for (const end = now() + limitMs; ; await pause(100)) {
    const found = await reached().catch(() => undefined);
    if (found) return found;
    if (now() > end) throw new Error(`timeout: ${what}`);
  }
}
/** The primary, if all Pods are well. */
async function healthy() {
  const roles = await Promise.all(pods.map(roleOf));
  const primaries = pods.filter((_, index) => roles[index]?.role === "primary");
  const [primary] = primaries;
  if (primaries.length !== 1) return undefined;
  const follow = roles.every(
    (role) => role?.role === "primary" || (role?.role === "replica" && role.isInSync && role.primaryHost === primary.host),
  );
  return follow ? primary : undefined;
}

const clientProgram = new URL("middleware-faults-client.mjs", import.meta.url).pathname;
/** Starts a client that appends values or increments the register, in the network of a Pod or of no Pod. */
function startClient(name, workload) {
  const where = network.names.router;
  const args = [clientProgram, flags.engine, flags.mode, workload, name, ...pods.map(({ host }) => host)];
  const child = spawn("ip", ["netns", "exec", where, process.execPath, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const acknowledged = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    const [value, started, at, host] = line.split(" ");
    acknowledged.push({ value, started: Number(started), at: Number(at), host });
  });
  return {
    workload,
    acknowledged,
    stop: async () => {
      child.kill("SIGKILL");
      await once(child, "close");
    },
  };
}

const nft = (text) => runCommand(["ip", "netns", "exec", network.names.router, "nft", "-f", "-"], text);
/** Cuts a Pod off from the others and from all clients. */
const cut = ({ host }) =>
  nft(
    ["forward", "input", "output"]
      .map((hook) => `chain ${hook} { type filter hook ${hook} priority -10; ip saddr ${host} drop; ip daddr ${host} drop; }`)
      .join("\n")
      .replace(/^/, "table inet cut {\n") + "\n}\n",
  );
const heal = () => nft("delete table inet cut");

const [first, second] = [8_000, 14_000];
const freezeChild = (pod, name) =>
  freeze(
    processesOf(pod)
      .children.filter(({ command }) => command.includes(name))
      .map(({ pid }) => pid),
    lasting(),
  );
const lasting = () => first + random() * (second - first);
const faults = {
  "server killed": async (pod) => signal([processesOf(pod).server], "SIGKILL"),
  "agent killed": async (pod) => signal([processesOf(pod).agent], "SIGKILL"),
  "server frozen": async (pod) => {
    const { server, children } = processesOf(pod);
    await freeze([server, ...children.map(({ pid }) => pid)], lasting());
  },
  "agent frozen": async (pod) => freeze([processesOf(pod).agent], lasting()),
  "agent and server frozen": async (pod) => {
    const { agent, server, children } = processesOf(pod);
    await freeze([agent, server, ...children.map(({ pid }) => pid)], lasting());
  },
  "cut off": async (pod) => {
    await cut(pod);
    await pause(lasting());
    await heal();
  },
  ...(isRedis
    ? {}
    : {
        "main process frozen": async (pod) => freeze([processesOf(pod).server], lasting()),
        "walwriter frozen": (pod) => freezeChild(pod, "walwriter"),
        "checkpointer frozen": (pod) => freezeChild(pod, "checkpointer"),
      }),
};

async function setUp() {
  for (const pod of pods) await run(pod);
  const [primary] = pods;
  for (const pod of pods) await until(pod.name, () => roleOf(pod));
  const assign = (pod, role) => call(pod, { method: "AssignRole", role, primary: primary.host, epoch: 1 }).then(() => true);
  await until("a primary", () => assign(primary, "primary"));
  for (const pod of pods.slice(1)) await until(`${pod.name} follows`, () => assign(pod, "replica"));
  await until("replicas", healthy);
  const members = pods.map(({ name, host }) => ({ name, host }));
  const setMembers = (pod) => call(pod, { method: "SetMembers", key: "m1", members, maxLagBytes: 0 }).then(() => true);
  for (const pod of pods.toReversed()) await until(`${pod.name} is a member`, () => setMembers(pod));
}

const runClient = (...args) =>
  JSON.parse(
    execFileSync(
      "ip",
      ["netns", "exec", network.names.router, process.execPath, clientProgram, flags.engine, flags.mode, ...args],
      {
        encoding: "utf8",
        maxBuffer: 256 * 1_048_576,
      },
    ),
  );

const rows = [];
let failure;
const clients = [];
let result;
try {
  await setUp();
  runClient("prepare");
  for (let index = 0; index < 2; index++)
    clients.push(startClient(`a${index}`, "append"), startClient(`r${index}`, "register"));
  const end = now() + Number(flags.minutes) * 60_000;
  const names = Object.keys(faults);
  for (let number = 0; now() < end; number++) {
    const primary = await until("all Pods are well", healthy, 180_000);
    await pause(1_000 + random() * 3_000);
    const name = names[number % names.length];
    const isPrimary = random() < 0.75;
    const pod = isPrimary ? primary : pods.filter((each) => each !== primary)[Math.floor(random() * 2)];
    const at = now();
    await faults[name](pod);
    const next = await until(`all Pods are well after: ${name} ${pod.name}`, healthy, 180_000);
    await pause(500);
    const written = clients.flatMap(({ acknowledged }) => acknowledged);
    const row = {
      fault: name,
      of: isPrimary ? "primary" : "replica",
      gapMs: Math.round(gapOf(written, at, now())),
      isReplaced: next !== primary,
    };
    rows.push(row);
    log(JSON.stringify(row));
  }
} catch (error) {
  failure = error.message;
  log(failure);
  for (const pod of pods) log(`${pod.name} ${JSON.stringify(await roleOf(pod))}`);
} finally {
  for (const each of clients) await each.stop();
}
try {
  const primary = await until("a healthy end", healthy, 120_000);
  result = check(clients, runClient("read", primary.host), isSynchronous);
} catch (error) {
  failure ??= error.message;
  result = { problems: [] };
}
const summary = {};
for (const { fault, of, gapMs, isReplaced } of rows) {
  const row = (summary[`${fault}, ${of}`] ??= { runs: 0, replaced: 0, gaps: [] });
  row.runs += 1;
  row.replaced += isReplaced ? 1 : 0;
  row.gaps.push(gapMs);
}
const problems = [...(failure === undefined ? [] : [failure]), ...result.problems];
process.stdout.write(`${JSON.stringify({ ...flags, faults: rows.length, ...result, problems, summary }, undefined, 1)}\n`);
process.exit(problems.length > 0 ? 1 : 0);
