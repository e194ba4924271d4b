import { describe, expect, it } from "vitest";
import type { TaskGroup } from "../../api/taskgroup.ts";
import { definition, groupOf, jobOf, t0 } from "../../testing/objects.ts";
import { decideJob } from "./job-decision.ts";
import { revisionData } from "../../rollout/job-revision.ts";
import type { JobObservation } from "./job-observation.ts";

const decide = (job: JobObservation["job"], groups: readonly JobObservation["groups"][number][] = [], named = groups) =>
  decideJob({
    job,
    groups,
    groupNamed: (name) => named.find((group) => group.metadata.name === name),
    revisions: [{ number: 1, name: "hello-1", createdAt: undefined, ...revisionData(job.spec, 1, []) }],
    now: t0,
  });

const counted = (
  state: NonNullable<TaskGroup["status"]>["state"],
  counts: Partial<TaskGroup["status"]>,
): TaskGroup["status"] => ({
  state,
  totalTasks: 2,
  pendingTasks: 0,
  runningTasks: 0,
  succeededTasks: 0,
  failedTasks: 0,
  ...counts,
});
const policy = { attempts: 3, interval: "24h", delay: "15s", mode: "fail" } as const;
const existing = (status?: TaskGroup["status"], spec: Partial<TaskGroup["spec"]> = {}) =>
  groupOf({ robotSelector: {}, restartPolicy: policy, ...spec }, status ? { status } : {});

describe("decideJob", () => {
  it("creates a TaskGroup for every group together with the status (B3)", () => {
    const { groups, status } = decide(jobOf({ robotSelector: { env: "demo" }, priority: 70 }));
    expect(groups).toEqual([
      {
        name: "hello-workers",
        labels: { job: "hello" },
        spec: {
          jobName: "hello",
          groupName: "workers",
          count: 2,
          tasks: [definition],
          robotSelector: { env: "demo" },
          priority: 70,
          restartPolicy: policy,
        },
      },
    ]);
    expect(status).toMatchObject({ status: "pending", state: "pending", totalTasks: 2, pendingTasks: 2 });
  });

  it("creates a missing TaskGroup whatever the status says (B3)", () => {
    const status = { status: "pending", state: "pending", totalTasks: 2, pendingTasks: 2 } as const;
    expect(decide(jobOf({}, { status })).groups).toHaveLength(1);
    expect(decide(jobOf({}, { status: { ...status, state: "running" } })).groups).toHaveLength(1);
  });

  it("writes nothing if nothing changed", () => {
    const first = decide(jobOf(), [existing()]);
    expect(decide(jobOf({}, { status: first.status }), [existing()])).toEqual({ groups: [] });
  });

  it.each([
    ["pending", counted("pending", { pendingTasks: 2 }), "pending"],
    ["running", counted("running", { runningTasks: 1, pendingTasks: 1 }), "running"],
    ["one failed, one running: not ended", counted("running", { runningTasks: 1, failedTasks: 1 }), "running"],
    ["one failed, one pending: not ended", counted("running", { pendingTasks: 1, failedTasks: 1 }), "running"],
    ["all succeeded", counted("completed", { succeededTasks: 2 }), "completed"],
    ["one failed, one succeeded", counted("failed", { succeededTasks: 1, failedTasks: 1 }), "failed"],
  ] as const)("aggregates: %s", (_, status, state) => {
    expect(decide(jobOf(), [existing(status)]).status).toMatchObject({ state, status: state });
  });

  it("passes on lost tasks of its groups", () => {
    const lost = counted("running", { runningTasks: 2, lostTasks: 1, lostSince: "2026-01-01T00:00:00Z" });
    const { status } = decide(jobOf(), [existing(lost)]);
    expect(status).toMatchObject({
      state: "running",
      lostTasks: 1,
      taskGroupSummary: { workers: { running: 2, lost: 1 } },
      statusDescription: expect.stringContaining("1 unknown since 2026-01-01T00:00:00Z"),
    });
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Lost", status: "True" }));
  });

  it("sets the condition Completed and keeps its transition time while it does not change", () => {
    const running = decide(jobOf(), [existing(counted("running", { runningTasks: 2 }))]).status;
    const done = decideJob({
      job: jobOf({}, { status: running }),
      groups: [existing(counted("completed", { succeededTasks: 2 }))],
      groupNamed: () => undefined,
      revisions: [],
      now: t0 + 9000,
    }).status;
    expect(done?.conditions).toMatchObject([
      { type: "Completed", status: "True", lastTransitionTime: "2026-01-01T00:00:09Z" },
      { type: "Failed", status: "False", lastTransitionTime: "2026-01-01T00:00:00Z" },
      { type: "SpecApplied", status: "True" },
    ]);
  });

  it.each(["completed", "failed"] as const)("does not change a Job that has %s", (state) => {
    expect(decide(jobOf({}, { status: { state } }))).toEqual({ groups: [] });
  });

  it("ignores a Job that is being deleted", () => {
    expect(decide(jobOf({}, { deleting: true }))).toEqual({ groups: [] });
  });

  it("applies a change of count and keeps the rest of an existing group", () => {
    const changed = jobOf({
      taskGroups: [
        { name: "workers", count: 5, tasks: [{ ...definition, config: { execConfig: { command: "/bin/false" } } }] },
      ],
    });
    const { groups, status } = decide(changed, [existing()]);
    expect(groups[0]?.spec).toMatchObject({ count: 5, tasks: [definition] });
    expect(status?.conditions?.find((condition) => condition.type === "SpecApplied")).toMatchObject({
      status: "False",
      reason: "TemplatesFrozen",
      message: "a TaskGroup keeps the template that it was created from; without effect: taskGroups[name=workers]",
    });
  });

  it.each(["completed", "failed"] as const)("does not change the count of a group that has %s and reports it", (state) => {
    const over = existing(counted(state, { succeededTasks: 2 }));
    const more = { name: "next", count: 1, tasks: [definition] };
    const { groups, status } = decide(jobOf({ taskGroups: [{ name: "workers", count: 5, tasks: [definition] }, more] }), [
      over,
    ]);
    expect(groups.map(({ name }) => name)).toEqual(["hello-next"]);
    expect(status?.conditions?.find(({ type }) => type === "SpecApplied")).toMatchObject({
      status: "False",
      message: "a TaskGroup keeps the template that it was created from; without effect: taskGroups[name=workers].count",
    });
  });

  it("keeps counting a group that was removed from the spec", () => {
    const left = groupOf({ groupName: "old" }, { name: "hello-old", status: counted("running", { runningTasks: 2 }) });
    const done = existing(counted("completed", { succeededTasks: 2 }));
    expect(decide(jobOf(), [done, left]).status).toMatchObject({
      state: "running",
      totalTasks: 4,
      runningTasks: 2,
      taskGroups: ["hello-workers", "hello-old"],
    });
  });

  it.each([
    ["service", 2],
    ["batch", 3],
    ["system", 3],
  ] as const)("fills in the restart policy of a %s Job: %i attempts", (type, attempts) => {
    expect(decide(jobOf({ type })).groups[0]?.spec.restartPolicy).toMatchObject({ attempts });
  });

  it("does not end a system Job, because further robots may join", () => {
    const done = existing(counted("completed", { succeededTasks: 2 }), { type: "system" });
    const { status } = decide(jobOf({ type: "system" }), [done]);
    expect(status?.state).toBe("running");
    expect(decide(jobOf({ type: "system" }, { status: { ...status, state: "failed" } }), [done]).status?.state).toBe("running");
  });

  it("does not mistake defaults that the API server filled in for a change", () => {
    const present = existing(undefined, { tasks: [{ ...definition, killTimeout: "5s" }] });
    expect(decide(jobOf(), [present]).status?.conditions?.find((each) => each.type === "SpecApplied")?.status).toBe("True");
  });

  it("waits until the TaskGroup of an earlier Job of the same name is deleted", () => {
    const old = groupOf({}, { owner: { uid: "job-0" } });
    expect(decide(jobOf(), [], [old]).groups).toEqual([]);
  });

  it("uses another name if another Job's TaskGroup has the plain one", () => {
    const foreign = groupOf({}, { owner: { name: "hello-workers-of", uid: "other" } });
    const name = decide(jobOf(), [], [foreign]).groups[0]?.name;
    expect(name).toMatch(/^hello-workers-[0-9a-f]{10}$/);
  });

  it("shortens long names and keeps them unique", () => {
    const name = "n".repeat(60);
    const [a, b] = ["left", "right"].map(
      (group) => decide(jobOf({ taskGroups: [{ name: group, count: 1, tasks: [definition] }] }, { name })).groups[0]?.name,
    );
    expect(a).toHaveLength(63);
    expect(a).not.toBe(b);
  });

  it.each([
    ["all tasks run", { runningTasks: 2 }, "completed", "True"],
    ["a task does not run outside a rollout", { runningTasks: 1, pendingTasks: 1 }, "completed", "False"],
    ["a task is updated", { runningTasks: 1, pendingTasks: 1 }, "progressing", "True"],
    ["nothing runs", { pendingTasks: 2 }, "progressing", "False"],
  ] as const)("says whether a service is available: %s", (_case, counts, phase, expected) => {
    const update = { maxParallel: 5 };
    const rollout = { revision: 1, phase, progressAt: new Date(t0).toISOString() };
    const group = existing({ ...counted("running", counts), rollout }, { type: "service", revision: 1 });
    const { status } = decide(jobOf({ type: "service", update }), [group]);
    expect(status?.conditions?.find(({ type }) => type === "Available")?.status).toBe(expected);
  });
});
