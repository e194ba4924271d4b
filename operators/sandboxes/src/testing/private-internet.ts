import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import type { AgentSandbox } from "../protocol/protocol.ts";

/*
 * A machine and its internet in network namespaces of their own, so that a test changes nothing on the host:
 *
 *     sandbox -- agent's namespace 10.1.0.1 -- 10.1.0.2 "world": servers on every port 80 and 443, and a name server
 *                                                         203.0.113.10 good.example, 203.0.113.66 evil.example
 *
 * rebind.example resolves to the agent's own address.
 */

/** A sandbox for {@link runInPrivateInternet}, and the Bash script that it runs. */
export interface NetworkAttempt extends Pick<AgentSandbox, "network" | "networkAllow" | "ports"> {
  readonly script: string;
  /** Runs the script alongside the program of the sandbox after the agent was replaced. */
  readonly isAdopted?: boolean;
}

/** What became of a {@link NetworkAttempt}. */
export interface NetworkResult {
  readonly success: boolean;
  readonly message?: string;
  readonly output: string;
  readonly denied?: { readonly count: number; readonly destinations: readonly string[] };
}

/** The results of a run, and what its sandboxes left behind: links, namespaces and tables. */
export interface NetworkRun {
  readonly results: readonly NetworkResult[];
  readonly leftovers: string;
}

/** Bash that prints what a server says, or why it cannot be reached. */
export const fetchScript = (host: string, port: number): string =>
  `(exec 3<>/dev/tcp/${host}/${port} && cat <&3) 2>/dev/null || echo "no ${host}:${port}"`;

const setup = `set -e
mkdir -p /run/netns
mount -t tmpfs none /run/netns
ip link set lo up
ip netns add world
ip link add up0 type veth peer name eth0 netns world
ip addr add 10.1.0.1/24 dev up0
ip link set up0 up
ip -n world link set lo up
ip -n world addr add 10.1.0.2/24 dev eth0
ip -n world link set eth0 up
for address in 10 53 66; do ip -n world addr add 203.0.113.$address/32 dev lo; done
ip route add default via 10.1.0.2
exec "$@"
`;

const built = (path: string): string => JSON.stringify(new URL(`../../dist/${path}`, import.meta.url).href);

const world = `
import net from "node:net";
import dgram from "node:dgram";
import dns from "dns-packet";
for (const port of [80, 443]) net.createServer((s) => s.on("error", () => {}).end(s.localAddress + ":" + port + "\\n")).listen(port, "0.0.0.0");
const addresses = { "good.example": "203.0.113.10", "evil.example": "203.0.113.66", "rebind.example": "10.1.0.1" };
const server = dgram.createSocket("udp4");
server.on("message", (message, { port, address }) => {
  const { id, questions } = dns.decode(message);
  const [{ name }] = questions;
  const data = addresses[name];
  const answers = data === undefined ? [] : [{ type: "A", name, ttl: 30, data }];
  server.send(dns.encode({ type: "response", id, flags: 0x180, questions, answers }), port, address);
});
server.bind(53, "203.0.113.53", () => process.stdout.write("up"));
`;

const scenario = `
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { startLocalContainerd } from "@keelson/execution/testing";
import { openAgentDriver } from ${built("agent/run-agent.js")};
import { SandboxNetworks } from ${built("network/sandbox-networks.js")};
import { SandboxManager } from ${built("sandbox/sandbox-manager.js")};
import { hostImages } from ${built("sandbox/image-store.js")};
const [dir, driverName, attempts] = JSON.parse(process.argv[1]);
const world = spawn("ip", ["netns", "exec", "world", process.execPath, "--input-type=module", "-e", ${JSON.stringify(world)}], { stdio: ["ignore", "pipe", "inherit"] });
await once(world.stdout, "data");
// A server of the host itself.
createServer((socket) => socket.on("error", () => {}).end("host")).listen(80, "0.0.0.0").unref();
const containerd = driverName === "containerd" ? await startLocalContainerd(dir + "/containerd") : undefined;
const isolation = { driver: driverName, ...(containerd && { containerdSocket: containerd.socket }) };
const clock = systemClock;
const log = silentLogger;
let driver, networks, manager;
async function open() {
networks = new SandboxNetworks({ dir: dir + "/agent/networks", clock, log, dnsServers: ["203.0.113.53"] });
driver = await openAgentDriver(isolation, dir + "/agent", clock, (id, pid) => networks.connect(id, pid));
await networks.adopt(new Set(driver.list().filter(({ state }) => state.kind !== "exited").map(({ id }) => id)));
manager = new SandboxManager({ agentId: "agent", nodeName: "node", capacity: 8, driver, images: hostImages, address: "127.0.0.1", clock, log, expiryFile: dir + "/expiries.json", networks });
}
await open();
async function runAdopted(sandboxId, script) {
  // Succeeds once the program has joined its network.
  await text((await driver.get(sandboxId).exec({ command: ["true"] })).stdout);
  manager.detach();
  await networks.close();
  await driver.close();
  await open();
  const session = await driver.get(sandboxId).exec({ command: ["bash", "-c", script] });
  session.stdin.end();
  const output = await text(session.stdout);
  await driver.get(sandboxId).stop({ graceMs: 0 });
  return output;
}
const results = [];
for (const [index, { script, isAdopted, ...network }] of attempts.entries()) {
  const sandboxId = String(index).repeat(32);
  const command = isAdopted ? ["sleep", "600"] : ["bash", "-c", script];
  const { success, message } = await manager.create({ sandboxId, claimUid: "", claimName: "one", namespace: "default", image: "host", command, ...network });
  const adopted = isAdopted ? await runAdopted(sandboxId, script) : undefined;
  const program = driver.get(sandboxId);
  const exited = await program?.exited();
  await networks.remove(sandboxId);
  const output = adopted ?? (program === undefined ? "" : readFileSync(program.logs.stdout, "utf8"));
  results.push({ success, message: message ?? exited?.message, output, denied: networks.denied(sandboxId) });
}
await manager.shutDown();
await networks.close();
await Promise.all(driver.list().map((program) => program.remove()));
await driver.close();
await containerd?.stop();
world.kill();
const list = (program, ...args) => execFileSync(program, args, { encoding: "utf8" });
const leftovers = list("nft", "list", "tables") + list("ip", "-oneline", "link").split("\\n").filter((line) => line.includes("ks")).join("") + list("ip", "netns").replace(/^world.*\\n/m, "");
process.stdout.write(JSON.stringify({ results, leftovers }));
process.exit(0);
`;

/** Runs sandboxes one after the other on an agent in a private internet. Needs root. `dir` must be enterable by everyone. */
export async function runInPrivateInternet(
  dir: string,
  driver: "bubblewrap" | "containerd",
  attempts: readonly NetworkAttempt[],
): Promise<NetworkRun> {
  const program = [process.execPath, "--input-type=module", "-e", scenario, JSON.stringify([dir, driver, attempts])];
  const child = spawn("unshare", ["--net", "--mount", "sh", "-c", setup, "sh", ...program], {
    cwd: import.meta.dirname,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (!output.startsWith("{")) throw new Error(`the scenario failed: ${errors || output}`);
  return JSON.parse(output) as NetworkRun;
}
