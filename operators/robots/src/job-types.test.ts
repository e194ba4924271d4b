import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Job } from "./api/job.ts";
import { dispatchedJob } from "./commands/dispatch.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";
import type { ScriptedAgent } from "./testing/scripted-agent.ts";

let robots: RobotsEnvironment;
let client: Client;
let clock: VirtualClock;

beforeEach(async () => {
  // The API server sets the times of creation by the real clock.
  clock = createVirtualClock(Date.now());
  robots = await RobotsEnvironment.start({ clock });
  client = robots.client;
});

afterEach(() => robots[Symbol.asyncDispose]());

async function robot(robotId: string): Promise<ScriptedAgent> {
  const agent = await robots.connect({ robotId });
  await agent.register();
  await robots.online(robotId);
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
