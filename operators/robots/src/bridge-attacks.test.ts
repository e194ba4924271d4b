import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Job } from "./api/job.ts";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";

let robots: RobotsEnvironment;
let client: Client;
/** Path of each write of the operator. */
let writes: string[];
/** Warnings of the operator. */
let warnings: string[];
/** While set, writes to robots with this prefix wait. */
let gate: { readonly prefix: string; readonly opened: Promise<void>; readonly open: () => void } | undefined;

beforeEach(async () => {
  robots = await RobotsEnvironment.start();
  client = robots.client;
  writes = [];
  warnings = [];
  gate = undefined;
  await robots.stopOperator();
  const inner = robots.environment.transport();
  const observed: typeof inner = {
    request: async (request) => {
      if (request.method !== "GET") writes.push(request.path);
      if (gate !== undefined && request.method !== "GET" && JSON.stringify(request.body ?? "").includes(gate.prefix))
        await gate.opened;
      return await inner.request(request);
    },
    watch: (request) => inner.watch(request),
    close: () => inner.close(),
  };
  const logger: Logger = { ...silentLogger, child: () => logger, warn: (_, message) => void warnings.push(message) };
  await robots.startOperator({ logger, client: createClient({ transport: observed, fieldManager: "robots" }) });
});

afterEach(async () => {
  gate?.open();
  await robots[Symbol.asyncDispose]();
});

function closeGate(prefix: string): void {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  gate = { prefix, opened, open };
}

const uidOf = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const unknownTasks = (count: number) => Array.from({ length: count }, (_, n) => ({ taskUid: uidOf(n), attempt: 1 }));

describe("a robot that attacks the bridge", () => {
  it("cannot keep other robots out by filling the queue with registrations", async () => {
    const attackers = [await robots.connect({ robotId: "mallory-1" }), await robots.connect({ robotId: "mallory-2" })];
    closeGate("mallory-");
    const flood = attackers.flatMap((agent) => Array.from({ length: 4_500 }, () => agent.register()));
    await Promise.all(flood);
    const honest = await robots.connect({ robotId: "honest" });
    await honest.register();
    await robots.online("honest");
    gate?.open();
    await robots.online("mallory-1", "mallory-2");
  });

  it("gets a deletion for each unknown task once, not with every registration", async () => {
    const agent = await robots.connect({ robotId: "mallory" });
    await agent.register();
    await robots.online("mallory");
    for (let n = 0; n < 5; n++) await agent.register({ tasks: unknownTasks(3_700) });
    for (let n = 0; n < 5; n++) await agent.register({ tasks: unknownTasks(1_000) });
    // The reports of one task come after the registrations, and so do their answers.
    await agent.register({ tasks: [] });
    await expect.poll(() => agent.dispatches.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(1_000);
    await agent.report({ uid: uidOf(9_999), attempt: 1, seq: 1 }, "running");
    await agent.acknowledged();
    // 23,500 were requested. The rate permits 5,000 only after more than six minutes.
    expect(agent.dispatches.length).toBeLessThan(5_000);
  });

  it("cannot cause a write with each message by changing its bootId", async () => {
    const agent = await robots.connect({ robotId: "mallory" });
    await agent.register();
    await robots.online("mallory");
    const before = writes.length;
    for (let boot = 0; boot < 300; boot++) await agent.heartbeat({ bootId: `boot-${boot}` });
    await watched(client, Robot, "mallory", (each) => each?.status?.bootId === "boot-299");
    expect(writes.slice(before).filter((path) => path.includes("/robots/mallory")).length).toBeLessThan(60);
  });

  it("cannot block the status of a task with a time that the API rejects", async () => {
    const agent = await robots.connect({ robotId: "mallory" });
    await agent.register();
    await robots.online("mallory");
    const tasks = [{ name: "run", driver: "exec" as const, config: { execConfig: { command: "/bin/true" } } }];
    await client.create(Job, {
      metadata: { name: "hello", namespace },
      spec: { name: "hello", taskGroups: [{ name: "workers", count: 1, tasks }] },
    });
    const { task } = await agent.dispatched();
    const of = { uid: task.metadata.uid ?? "", attempt: 1 };
    await agent.report({ ...of, seq: 1 }, "running", { startedAt: "+010000-01-01T00:00:00Z" });
    await agent.report({ ...of, seq: 2 }, "completed", { exitCode: 0, updatedAt: "9999-12-31T23:59:59Z" });
    await watched(client, Task, task.metadata.name ?? "", (each) => each?.status?.state === "completed");
    expect(agent.acks.map(({ seq }) => seq)).not.toContain(1);
    expect(warnings).toContainEqual(expect.stringContaining("startedAt must be between the years 0 and 9999"));
  });
});
