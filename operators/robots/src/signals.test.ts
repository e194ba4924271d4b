import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import mqtt from "mqtt";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startAgent } from "./agent/agent.ts";
import { Task } from "./api/task.ts";
import { TaskSignal } from "./api/task-signal.ts";
import { signalCommand } from "./commands/exec/signal.ts";
import type { RunningAgent } from "./commands/start-agent.ts";
import { issueToken } from "./commands/token.ts";
import { topics } from "./protocol/messages.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";
import { readStoredIdentity } from "./testing/stored-identity.ts";

let robots: RobotsEnvironment;
let client: Client;
let dir: string;
const agents = new Map<string, RunningAgent>();

/* The tests share an operator and two robots with keys. */

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-signals-"));
  robots = await RobotsEnvironment.start();
  client = robots.client;
  for (const robotId of ["signal-one", "signal-two"]) await start(robotId);
});

afterAll(async () => {
  for (const agent of agents.values()) await agent.stop();
  await robots[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true, force: true });
});

async function start(robotId: string): Promise<void> {
  const store = { client, namespace, fieldManager: "test" };
  const { text: token } = await issueToken(store, { robot: robotId, ttlMs: 60_000 }, Date.now());
  const agent = await startAgent({
    ...{ brokerUrl: robots.url, robotId, token, heartbeatIntervalMs: 30_000, workDir: join(dir, robotId), labels: {} },
    ...{ clock: systemClock, log: silentLogger, stopTasksOnExit: true },
  });
  agents.set(robotId, agent);
  await robots.online(robotId);
}

/** A task that runs until it is signalled. */
async function running(name: string, targetRobot: string): Promise<void> {
  const execConfig = { command: "/bin/sleep", args: ["600"] };
  const spec = { name, targetRobot, driver: "raw_exec" as const, config: { execConfig }, restartPolicy: { attempts: 0 } };
  await client.create(Task, { metadata: { name, namespace }, spec });
  await watchTask(name, "running");
}

const watchTask = (name: string, state: string) => watched(client, Task, name, (task) => task?.status?.state === state);

async function run(...args: string[]): Promise<{ readonly status: number; readonly output: string }> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const own = createClient({ transport: robots.environment.transport(), fieldManager: "test" });
  const status = await signalCommand.run({
    ...{ args, flags: {}, stdout, stderr, clock: systemClock, log: silentLogger },
    signal: new AbortController().signal,
    client: async () => own,
  });
  stdout.end();
  stderr.end();
  return { status, output: (await text(stdout)) + (await text(stderr)) };
}

/** Connects with the key of a robot, as an attacker that has taken it over. */
async function impostorOf(robotId: string) {
  await agents.get(robotId)?.stop();
  const { joined } = readStoredIdentity(join(dir, robotId, ".agent", "identity.json"));
  return await mqtt.connectAsync(robots.url.replace("mqtt:", "mqtts:"), {
    ...{ protocolVersion: 4, reconnectPeriod: 0, clientId: `k8s4r-agent-${robotId}`, username: robotId },
    ...{ key: joined.key, cert: joined.certificate, ca: joined.authority, checkServerIdentity: () => undefined },
  });
}

it("signals the program of a task, and says what the robot did", async () => {
  await running("ends-by-term", "signal-one");
  expect(await run("ends-by-term", "term")).toEqual({
    status: 0,
    output: "SIGTERM delivered to task ends-by-term on robot signal-one\n",
  });
  const ended = await watchTask("ends-by-term", "failed");
  expect(ended?.status).toMatchObject({ exitCode: 143, signal: 15 });
  const again = await run("ends-by-term", "HUP");
  expect(again.status).toBe(1);
  expect(again.output).toContain("SIGHUP was not delivered to task ends-by-term: task ends-by-term is failed");
});

it("rejects unknown tasks and signals before anything is created", async () => {
  expect(await run("no-such-task", "HUP")).toMatchObject({ status: 1, output: expect.stringContaining("not found") });
  expect(await run("no-such-task", "SEGV")).toMatchObject({
    status: 2,
    output: expect.stringContaining("must be one of SIGHUP"),
  });
  const spec = { task: "no-such-task", signal: "SIGSEGV" as never };
  await expect(client.create(TaskSignal, { metadata: { name: "bad", namespace }, spec })).rejects.toThrow(/spec\.signal/);
});

it("ignores the answer of a robot about a signal for another one", async () => {
  await agents.get("signal-two")?.stop();
  const attacker = await impostorOf("signal-two");
  // The operator does not fail it while the test runs, however long that takes.
  const sentAt = new Date(Date.now() + 3_600_000).toISOString();
  const sentTo = async (name: string, robot: string): Promise<string> => {
    const spec = { task: "elsewhere", signal: "SIGHUP" as const };
    const { uid } = (await client.create(TaskSignal, { metadata: { name, namespace }, spec })).metadata;
    const status = { phase: "Sent" as const, robot, taskUid: uid, attempt: 1, sentAt };
    // The operator has failed it, because the task does not exist.
    await watched(client, TaskSignal, name, (each) => each?.status?.phase === "Failed");
    await client.patch(TaskSignal, { namespace, name }, { type: "merge", body: { status } }, { subresource: "status" });
    await watched(client, TaskSignal, name, (each) => each?.status?.phase === "Sent");
    return uid;
  };
  const foreign = await sentTo("for-three", "signal-three");
  const own = await sentTo("for-two", "signal-two");
  for (const id of [foreign, own]) {
    await attacker.publishAsync(topics.signalAnswer("signal-two"), JSON.stringify({ id, isDelivered: true }), { qos: 1 });
  }
  await watched(client, TaskSignal, "for-two", (each) => each?.status?.phase === "Delivered");
  expect((await client.get(TaskSignal, { namespace, name: "for-three" })).status?.phase).toBe("Sent");
  const closed = new Promise<void>((resolve) => attacker.once("close", () => resolve()));
  attacker.publish(topics.signalAnswer("signal-three"), JSON.stringify({ id: foreign, isDelivered: true }), { qos: 1 });
  await closed;
});
