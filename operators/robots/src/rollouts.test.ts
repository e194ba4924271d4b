import { systemClock } from "@keelson/api-machinery/time";
import { ControllerRevision, Event } from "@keelson/api-machinery/kinds";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Job } from "./api/job.ts";
import { promotedRevisionAnnotation } from "./api/names.ts";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import type { UpdatePolicy } from "./api/update-policy.ts";
import { SimulatedFleet } from "./simulation/simulated-fleet.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";

let robots: RobotsEnvironment;
let fleet: SimulatedFleet | undefined;

beforeEach(async () => {
  robots = await RobotsEnvironment.start();
});

afterEach(async () => {
  await fleet?.stop();
  fleet = undefined;
  await robots[Symbol.asyncDispose]();
});

async function startFleet(count: number, failing = 0): Promise<SimulatedFleet> {
  const started = new SimulatedFleet({
    robots: count,
    failing,
    prefix: "sim",
    brokerUrl: robots.url,
    token: robots.token,
    labels: { ring: "all" },
    heartbeatIntervalMs: 30_000,
    clock: systemClock,
    random: Math.random,
    log: silentLogger,
  });
  fleet = started;
  started.start();
  await robots.online(...started.robots.map(({ robotId }) => robotId));
  return started;
}

const jobOf = (env: Record<string, string>, update: UpdatePolicy, rest: Partial<Job["spec"]> = {}) => ({
  metadata: { name: "patrol", namespace },
  spec: {
    name: "patrol",
    type: "system" as const,
    update: { minHealthyTime: "0s", healthyDeadline: "1h", progressDeadline: "1h", ...update },
    taskGroups: [
      {
        name: "all",
        count: 1,
        restartPolicy: { attempts: 0 },
        tasks: [{ name: "run", driver: "exec" as const, config: { execConfig: { command: "/bin/patrol" } }, env }],
      },
    ],
    ...rest,
  },
});

const apply = (job: Pick<Job, "metadata" | "spec"> & { metadata: { name: string } }) =>
  robots.client.apply(Job, job, { fieldManager: "test", force: true });
const reached = (isReached: (rollout: NonNullable<Job["status"]>["rollout"], job: Job) => boolean) =>
  watched(robots.client, Job, "patrol", (job) => job !== undefined && isReached(job.status?.rollout as never, job as never));
const revisionsOfTasks = async (): Promise<Record<string, number>> => {
  const { items } = await robots.client.list(Task, { namespace });
  const counts: Record<string, number> = {};
  for (const { spec } of items) counts[String(spec.revision)] = (counts[String(spec.revision)] ?? 0) + 1;
  return counts;
};
const reasons = async (): Promise<readonly (string | undefined)[]> =>
  (await robots.client.list(Event, { namespace })).items.map(({ reason }) => reason);

it("updates a canary on its robot, waits for its promotion and for resume", async () => {
  await startFleet(3);
  const update = { canary: 1, maxParallel: 3 };
  const service = { type: "service" as const };
  const job = (version: string) => {
    const { spec, metadata } = jobOf({ VERSION: version }, update, service);
    return { metadata, spec: { ...spec, taskGroups: spec.taskGroups.map((group) => ({ ...group, count: 3 })) } };
  };
  await apply(job("1"));
  await reached((rollout, { status }) => status?.runningTasks === 3 && rollout?.phase === "completed");
  const robotOf = async (index: number) =>
    (await robots.client.get(Task, { namespace, name: `patrol-all-run-${index}` })).spec.targetRobot;
  const before = await Promise.all([0, 1, 2].map(robotOf));

  await apply(job("2"));
  await reached((rollout) => rollout?.reason === "AwaitingPromotion");
  expect(await revisionsOfTasks()).toEqual({ 1: 2, 2: 1 });
  await robots.client.patch(Job, { namespace, name: "patrol" }, { type: "merge", body: { spec: { paused: true } } });
  await reached((rollout) => rollout?.reason === "Paused");
  const annotations = { [promotedRevisionAnnotation]: "2" };
  await robots.client.patch(Job, { namespace, name: "patrol" }, { type: "merge", body: { metadata: { annotations } } });
  await robots.client.patch(Job, { namespace, name: "patrol" }, { type: "merge", body: { spec: { paused: null } } });
  await reached((rollout) => rollout?.phase === "completed" && rollout.stableRevision === 2);
  expect(await revisionsOfTasks()).toEqual({ 2: 3 });
  expect(await Promise.all([0, 1, 2].map(robotOf))).toEqual(before);
  const kept = await robots.client.list(ControllerRevision, { namespace });
  expect(kept.items.map(({ revision }) => revision).sort()).toEqual([1, 2]);
});

it("reverts an update of 200 robots, 20 offline and 5 failing, and updates the offline ones when they return", async () => {
  const { robots: all } = await startFleet(200, 5);
  const offline = all.slice(180);
  const update = { maxParallel: "10%", abortThreshold: 2, autoRevert: true };
  await apply(jobOf({ VERSION: "1" }, update));
  await reached((_, { status }) => status?.runningTasks === 200);
  for (const robot of offline) await robot.disconnect();
  for (const { robotId } of offline) await watched(robots.client, Robot, robotId, (each) => each?.status?.phase === "Offline");

  await apply(jobOf({ VERSION: "2", SIMULATE_FAILS: "true" }, update));
  const reverted = await reached((rollout) => rollout?.phase === "reverted");
  expect(reverted?.status?.rollout).toMatchObject({
    revision: 1,
    latestRevision: 2,
    stableRevision: 1,
    failedRevision: 2,
    total: 200,
    updated: 200,
  });
  expect(await revisionsOfTasks()).toEqual({ 1: 200 });
  expect(reverted?.status?.conditions).toContainEqual(expect.objectContaining({ type: "Progressing", status: "False" }));
  expect(reverted?.status?.conditions).toContainEqual(expect.objectContaining({ type: "SpecApplied", status: "False" }));
  await expect
    .poll(reasons)
    .toEqual(expect.arrayContaining(["RolloutStarted", "RolloutFailed", "RolloutReverting", "RolloutReverted"]));

  await apply(jobOf({ VERSION: "3" }, { ...update, maxParallel: "25%" }));
  const completed = await reached((rollout) => rollout?.phase === "completed");
  expect(completed?.status?.rollout).toMatchObject({ revision: 3, stableRevision: 3, updated: 180, offline: 20 });
  expect(await revisionsOfTasks()).toEqual({ 1: 20, 3: 180 });
  for (const robot of offline) robot.connect();
  await reached((rollout) => rollout?.updated === 200 && rollout.healthy === 200);
  expect(fleet?.running).toBe(200);
}, 300_000);
