import { watched } from "@keelson/client/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Job } from "./api/job.ts";
import { Task } from "./api/task.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";

let robots: RobotsEnvironment;
const siteOf = { "a-1": "a", "a-2": "a", "a-3": "a", "b-1": "b" } as const;

/* The tests share robots. Each has its own Job. */

beforeAll(async () => {
  robots = await RobotsEnvironment.start();
  for (const [robotId, site] of Object.entries(siteOf)) await (await robots.connect({ robotId, labels: { site } })).register();
  await robots.online(...Object.keys(siteOf));
});

afterAll(() => robots[Symbol.asyncDispose]());

const definition = { name: "run", driver: "exec" as const, config: { execConfig: { command: "/bin/true" } } };

/** Creates a Job and returns the number of its tasks at each site. */
async function sitesOf(name: string, spec: Partial<Job["spec"]>, group: Partial<Job["spec"]["taskGroups"][number]>) {
  const taskGroups = [{ name: "workers", count: 6, tasks: [definition], ...group }];
  await robots.client.create(Job, { metadata: { name, namespace }, spec: { name, taskGroups, ...spec } });
  const counts: Record<string, number> = {};
  for (let index = 0; index < 6; index++) {
    const task = await watched(
      robots.client,
      Task,
      `${name}-workers-run-${index}`,
      (each) => each?.spec.targetRobot !== undefined,
    );
    const site = Object.entries(siteOf).find(([robot]) => robot === task?.spec.targetRobot)?.[1] ?? "none";
    counts[site] = (counts[site] ?? 0) + 1;
  }
  return counts;
}

it("spreads the copies of a Job's tasks evenly over sites, although they are placed concurrently", async () => {
  expect(await sitesOf("even", { spreads: [{ attribute: "${label.site}" }] }, {})).toEqual({ a: 3, b: 3 });
});

it("gives sites the shares of a group's spread", async () => {
  const targets = [{ value: "b", percent: 67 }];
  expect(await sitesOf("shares", {}, { spreads: [{ attribute: "${label.site}", targets }] })).toEqual({ a: 2, b: 4 });
});

it("creates the tasks of a Job with as many spreads and affinities as the Job, its groups and tasks may have", async () => {
  const spreads = (count: number) => Array.from({ length: count }, () => ({ attribute: "${label.site}" }));
  const affinities = (count: number) =>
    Array.from({ length: count }, () => ({ lTarget: "${label.site}", rTarget: "b", weight: 1 }));
  const tasks = [{ ...definition, spreads: spreads(24), affinities: affinities(64) }];
  const counts = await sitesOf("many", { spreads: spreads(8) }, { tasks, spreads: spreads(8), affinities: affinities(32) });
  expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(6);
});

it("fails a task with an invalid spread, and rejects values out of range by field", async () => {
  const job = (name: string, percent: number, weight = 50) => ({
    metadata: { name, namespace },
    spec: {
      name,
      spreads: [{ attribute: "${label.site}", weight, targets: ["a", "b"].map((value) => ({ value, percent })) }],
      taskGroups: [{ name: "workers", count: 1, tasks: [definition] }],
    },
  });
  await robots.client.create(Job, job("too-much", 60));
  const task = await watched(robots.client, Task, "too-much-workers-run-0", (each) => each?.status?.state === "failed");
  expect(task?.status?.reason).toBe("InvalidSpread");
  expect(task?.status?.message).toContain("spec.spreads[0].targets: Invalid value: 120: must be at most 100 percent together");
  await expect(robots.client.create(Job, job("percent", 101))).rejects.toThrow("spec.spreads[0].targets[0].percent");
  await expect(robots.client.create(Job, job("weight", 1, 0))).rejects.toThrow("spec.spreads[0].weight");
});
