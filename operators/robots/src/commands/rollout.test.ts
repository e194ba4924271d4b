import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { planJob } from "../rollout/plan-job.ts";
import { revisionData, type JobRevision } from "../rollout/job-revision.ts";
import { definition, groupOf, jobOf, robotOf, taskOf } from "../testing/objects.ts";
import { describePlan, readJobs } from "./plan.ts";
import { canPromote, describeHistory, restoredSpec, rollbackOperations, rollbackTarget } from "./rollout.ts";

const withEnv = (env: Record<string, string>, count = 2) =>
  jobOf({ type: "service", taskGroups: [{ name: "workers", count, tasks: [{ ...definition, env }] }] });
const revision = (number: number, version: string): JobRevision => ({
  number,
  name: `hello-${number}`,
  createdAt: `2026-01-0${number}T00:00:00Z`,
  ...revisionData(withEnv({ VERSION: version }).spec, number, []),
});
const { signal } = new AbortController();
const three = [revision(1, "a"), revision(2, "b"), revision(3, "c")];
const rolledOut = (rollout: Partial<NonNullable<NonNullable<ReturnType<typeof jobOf>["status"]>["rollout"]>>) => {
  const status = { rollout: { revision: 3, latestRevision: 3, stableRevision: 3, phase: "completed" as const, ...rollout } };
  return { ...withEnv({ VERSION: "c" }), status };
};
const lines = (text: string): readonly string[][] => text.split("\n").map((line) => line.split(/\s{2,}/));

it("lists revisions with what changed, the newest first", () => {
  const job = rolledOut({ revision: 2, stableRevision: 2, failedRevision: 3, phase: "reverted", message: "why" });
  expect(lines(describeHistory(job, three))).toEqual([
    ["REVISION", "STATE", "CREATED", "CHANGED"],
    ["3", "failed", "2026-01-03T00:00:00Z", "taskGroups[name=workers].tasks[name=run].env.VERSION"],
    ["2", "current,stable", "2026-01-02T00:00:00Z", "taskGroups[name=workers].tasks[name=run].env.VERSION"],
    ["1", "-", "2026-01-01T00:00:00Z", "-"],
    [""],
    ["why"],
    [""],
  ]);
});

it("rolls back to the revision that completed before, to the stable one during a rollout, and to one that is named", () => {
  expect(rollbackTarget(rolledOut({ previousStableRevision: 1 }), three, undefined)).toBe(three[0]);
  expect(rollbackTarget(rolledOut({ stableRevision: 1, phase: "progressing" }), three, undefined)).toBe(three[0]);
  expect(rollbackTarget(rolledOut({}), three, 1)).toBe(three[0]);
  expect(rollbackTarget(rolledOut({}), three, 3)).toBe("revision 3 is the current one");
  expect(rollbackTarget(rolledOut({}), three, 9)).toBe("revision 9 not found");
  expect(rollbackTarget(rolledOut({}), three, undefined)).toBe("no earlier revision has completed; name one with --to");
});

it("restores a spec without its counts and update policy", () => {
  const job = jobOf({
    type: "service",
    paused: true,
    update: { maxParallel: 7 },
    taskGroups: [{ name: "workers", count: 9, tasks: [definition] }],
  });
  expect(restoredSpec(job, revision(1, "a"))).toMatchObject({
    paused: true,
    update: { maxParallel: 7 },
    taskGroups: [{ name: "workers", count: 9, tasks: [{ env: { VERSION: "a" } }] }],
  });
});

const robots = [
  robotOf("robot-001", { spec: { labels: { env: "a" } } }),
  robotOf("robot-002", { spec: { labels: { env: "b" } } }),
];
const running = (index: number, robot: string) =>
  taskOf(
    { state: "running", attempt: 1 },
    { name: `hello-workers-run-${index}`, uid: `u${index}`, index, spec: { targetRobot: robot } },
  );

it("plans which tasks are created, restarted, moved and stopped, and says why", () => {
  const tasks = [running(0, "robot-001"), running(1, "robot-002"), running(5, "robot-001")];
  const live = withEnv({ VERSION: "a" });
  const spec = { ...withEnv({ VERSION: "b" }, 3).spec, robotSelector: { env: "a" } };
  const job = { ...live, spec };
  const plan = planJob({ job, live, revisions: [], groups: [groupOf()], tasks, allTasks: tasks, robots });
  const changed = "changed: robotSelector, tasks[name=run].env.VERSION";
  expect(plan).toEqual([
    { group: "workers", task: "run/0", action: "restart", robot: "robot-001", why: changed },
    {
      group: "workers",
      task: "run/1",
      action: "move",
      robot: "robot-001",
      why: `${changed}; robot-002 is not matching robotSelector env=a`,
    },
    { group: "workers", task: "run/2", action: "create", robot: "robot-001", why: "the task does not exist" },
    { group: "workers", task: "run/5", action: "stop", robot: "robot-001", why: changed },
  ]);
  expect(describePlan(job, false, plan, false)).toMatch(
    /^Job hello: exists; 1 to create, 1 to restart, 1 to move, 1 to stop, 0 unchanged\nGroup workers: at most 1 at the same time; stops if it fails\.\n/,
  );
});

it("plans nothing for an unchanged Job, and says that a batch Job keeps its tasks", () => {
  const tasks = [running(0, "robot-001"), running(1, "robot-002")];
  const live = withEnv({ VERSION: "a" });
  const observed = { revisions: [], groups: [groupOf()], tasks, allTasks: tasks, robots };
  const unchanged = planJob({ ...observed, job: live, live });
  expect(unchanged.map(({ action }) => action)).toEqual(["keep", "keep"]);
  expect(describePlan(live, false, unchanged, false)).toContain("Nothing changes.");
  const batch = { ...live, spec: { ...live.spec, type: "batch" as const } };
  const changed = { ...batch, spec: { ...withEnv({ VERSION: "b" }).spec, type: "batch" as const } };
  const [first] = planJob({ ...observed, job: changed, live: batch });
  expect(first).toMatchObject({ action: "ignore", why: expect.stringContaining("a task of type batch keeps its template") });
});

it("reads the Jobs to plan from standard input if the file is -", async () => {
  const manifest = JSON.stringify(withEnv({ VERSION: "a" }));
  const input = Readable.from([`${manifest}\n---\n{"apiVersion":"v1","kind":"ConfigMap"}\n`]);
  expect(await readJobs("-", input, signal)).toEqual([withEnv({ VERSION: "a" })]);
  expect(await readJobs("-", Readable.from(["{}"]), signal)).toBe("standard input contains no Job of robot.k8s4r.io");
});

it("plans nothing for the manifest that an automatic revert returned to, and for the one that failed", () => {
  const tasks = [0, 1].map((index) => {
    const task = running(index, "robot-001");
    return { ...task, spec: { ...task.spec, revision: 1 } };
  });
  const [old, failed] = [withEnv({ VERSION: "a" }), withEnv({ VERSION: "b" })];
  const revisions = [old, failed].map(({ spec }, index) => ({
    ...{ number: index + 1, name: `r${index + 1}`, createdAt: undefined },
    ...revisionData(spec, index + 1, []),
  }));
  const observed = { revisions, groups: [groupOf()], tasks, allTasks: tasks, robots };
  const actionsOf = (job: typeof old) => planJob({ ...observed, job, live: failed }).map(({ action }) => action);
  expect(actionsOf(old)).toEqual(["keep", "keep"]);
  expect(actionsOf(failed)).toEqual(["keep", "keep"]);
  expect(actionsOf(withEnv({ VERSION: "c" }))).toEqual(["restart", "restart"]);
});

it("promotes only a rollout in progress", () => {
  for (const phase of ["progressing", "waiting"] as const) expect(canPromote(rolledOut({ phase })), phase).toBe(true);
  for (const phase of ["failed", "reverting", "reverted", "completed"] as const)
    expect(canPromote(rolledOut({ phase })), phase).toBe(false);
  expect(canPromote(withEnv({}))).toBe(false);
});

it("rolls back the spec that was read, regardless of status changes", () => {
  const job = rolledOut({});
  const read = { ...job, metadata: { ...job.metadata, generation: 7 } };
  expect(rollbackOperations(read, revision(1, "a"))[0]).toEqual({ op: "test", path: "/metadata/generation", value: 7 });
});

it("plans where the copies of a new Job go by its spreads, each group for itself", () => {
  const sites = ["a", "a", "b"].map((env, index) => robotOf(`robot-00${index}`, { spec: { labels: { env } } }));
  const targets = [
    { value: "a", percent: 75 },
    { value: "b", percent: 25 },
  ];
  const group = (name: string) => ({ name, count: 4, tasks: [definition] });
  const job = jobOf({ spreads: [{ attribute: "${label.env}", targets }], taskGroups: [group("one"), group("two")] });
  const plan = planJob({ job, live: undefined, revisions: [], groups: [], tasks: [], allTasks: [], robots: sites });
  const toB = (name: string) => plan.filter((each) => each.group === name && each.robot === "robot-002").length;
  expect(plan.map(({ action }) => action)).toEqual(Array.from({ length: 8 }, () => "create"));
  expect([toB("one"), toB("two")]).toEqual([1, 1]);
});

it("plans which tasks of lower priority a Job stops, each for one task only", () => {
  const robot = robotOf("robot-001", {
    status: { phase: "Online", agentFeatures: ["leases"], deviceInfo: { cpu: { logicalCores: 2 } } },
  });
  const resources = { cpu: "1000m" };
  const low = ["a", "b"].map((uid) =>
    taskOf(
      { state: "running", attempt: 1 },
      { uid, name: `low-${uid}`, spec: { resources, priority: 20, targetRobot: "robot-001" } },
    ),
  );
  const job = jobOf({
    priority: 80,
    preemptionPolicy: "PreemptLowerPriority",
    taskGroups: [{ name: "workers", count: 3, tasks: [{ ...definition, resources }] }],
  });
  const plan = planJob({ job, live: undefined, revisions: [], groups: [], tasks: [], allTasks: low, robots: [robot] });
  expect(plan.map(({ preempts }) => preempts?.length ?? 0)).toEqual([1, 1, 0]);
  expect(new Set(plan.flatMap(({ preempts = [] }) => preempts))).toEqual(new Set(["low-a", "low-b"]));
  expect(plan[2]?.why).toMatch(/^it waits: 0\/1 robots fit/);
  const text = describePlan(job, true, plan, false);
  expect(text).toContain("3 to create, 0 to restart, 0 to move, 0 to stop, 0 unchanged; 2 of lower priority to preempt\n");
  expect(text).toMatch(/create +workers +run\/0 +robot-001 +the task does not exist; it preempts low-[ab]\n/);
});
