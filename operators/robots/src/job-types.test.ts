import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type RunningOperator, startOperator } from "@keelson/operator";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Job } from "./api/job.ts";
import { Robot } from "./api/robot.ts";
import { Secret } from "./api/secret.ts";
import { dispatchedJob } from "./commands/dispatch.ts";
import { robots } from "./operator.ts";
import { connectScriptedAgent, type ScriptedAgent } from "./testing/scripted-agent.ts";

const namespace = "default";
let environment: TestEnvironment;
let client: Client;
let operator: RunningOperator;
let dataDir: string;
let clock: VirtualClock;
let token: string;
const agents: ScriptedAgent[] = [];

beforeEach(async () => {
  environment = await startTestEnvironment({ crds: robots.resources.map((resource) => resource.crd) });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  dataDir = mkdtempSync(join(tmpdir(), "robots-jobs-"));
  // The API server sets the times of creation by the real clock.
  clock = createVirtualClock(Date.now());
  operator = await startOperator({ operator: robots, client, dataDir, clock, flags: { "mqtt-port": "0" } });
  const secret = await client.get(Secret, { namespace, name: "robot-join-token" });
  token = Buffer.from(secret.data?.token ?? "", "base64").toString();
});

afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.leave();
  await operator.stop();
  await environment.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

async function robot(robotId: string): Promise<ScriptedAgent> {
  const agent = await connectScriptedAgent({ url: operator.endpoints.mqtt ?? "", robotId, token });
  agents.push(agent);
  await agent.register();
  await watched(client, Robot, robotId, (each) => each?.status?.phase === "Online");
  return agent;
}

const work = {
  taskGroups: [
    {
      name: "all",
      count: 1,
      tasks: [
        {
          name: "run",
          driver: "exec" as const,
          config: { execConfig: { command: "/bin/true" } },
          dispatchPayload: { file: "input" },
        },
      ],
    },
  ],
};

it("dispatches a parameterized Job: its task gets the metadata and the payload", async () => {
  const one = await robot("robot-001");
  const parent = await client.create(Job, {
    metadata: { name: "inspect", namespace },
    spec: { name: "inspect", ...work, meta: { site: "a" }, parameterized: { metaRequired: ["bay"] } },
  });
  await watched(client, Job, "inspect", (each) => each?.status?.state === "running");
  expect(one.dispatches).toEqual([]);
  const dispatched = dispatchedJob(parent, { meta: { bay: "7" }, payload: Buffer.from("hi") }, "x");
  await client.create(Job, dispatched);
  const { task } = await one.dispatched();
  expect(task.metadata.name).toBe("inspect-dispatch-x-all-run-0");
  expect(task.spec).toMatchObject({ meta: { site: "a", bay: "7" }, payload: Buffer.from("hi").toString("base64") });
  await watched(client, Job, "inspect", (each) => each?.status?.activeJobs?.join() === "inspect-dispatch-x");
  const of = { uid: task.metadata.uid ?? "", attempt: 1 };
  await one.report({ ...of, seq: 1 }, "completed");
  await watched(client, Job, "inspect-dispatch-x", (each) => each?.status?.state === "completed");
  await watched(client, Job, "inspect", (each) => each?.status?.activeJobs?.length === 0);
});

it("runs a periodic Job at its times", async () => {
  const one = await robot("robot-001");
  await client.create(Job, {
    metadata: { name: "sweep", namespace },
    spec: { name: "sweep", ...work, periodic: { cron: "* * * * *" } },
  });
  const waiting = await watched(client, Job, "sweep", (each) => each?.status?.nextScheduleTime !== undefined);
  expect(waiting?.status?.activeJobs).toEqual([]);
  const nextMs = Date.parse(waiting?.status?.nextScheduleTime ?? "");
  await clock.advance(nextMs - clock.now() + 1_000);
  const name = `sweep-periodic-${nextMs / 1000}`;
  expect((await one.dispatched()).task.metadata.name).toBe(`${name}-all-run-0`);
  const started = await watched(client, Job, "sweep", (each) => each?.status?.activeJobs?.length === 1);
  expect(started?.status).toMatchObject({ activeJobs: [name], lastScheduleTime: new Date(nextMs).toISOString() });
});
