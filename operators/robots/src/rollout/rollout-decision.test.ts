import { describe, expect, it } from "vitest";
import type { GroupRollout } from "../api/update-policy.ts";
import { after, t0 } from "../testing/objects.ts";
import { decideRollout, type RolloutDecision } from "./rollout-decision.ts";
import type { Copy, RolloutObservation } from "./rollout-observation.ts";
import { completeUpdatePolicy } from "./update-policy.ts";

const copy = (index: number, rest: Partial<Copy> = {}): Copy => ({
  key: `run/${index}`,
  robot: `robot-${index}`,
  isOffline: false,
  wave: 0,
  revision: 1,
  isDeleting: false,
  condition: "available",
  isInStable: true,
  ...rest,
});
const missing = (index: number, rest: Partial<Copy> = {}): Copy => {
  const { revision: _, ...without } = copy(index, { condition: "starting", ...rest });
  return without;
};
const policy = (fields: Parameters<typeof completeUpdatePolicy>[0][0], total = 10) => completeUpdatePolicy([fields], total);
const done: GroupRollout = { revision: 1, phase: "completed", progressAt: after(0) };
const progressing = (rest: Partial<GroupRollout> = {}): GroupRollout => ({
  revision: 2,
  phase: "progressing",
  progressAt: after(0),
  ...rest,
});

const decide = (copies: readonly Copy[], rest: Partial<RolloutObservation> = {}): RolloutDecision =>
  decideRollout({
    revision: 2,
    stable: 1,
    isPaused: false,
    isPromoted: false,
    isRevert: false,
    policy: policy({ maxParallel: 2 }),
    copies,
    surplus: { total: 0, deleting: 0 },
    before: done,
    window: { kind: "open" },
    now: t0,
    ...rest,
  });
const updatingOf = ({ status }: RolloutDecision): readonly string[] => (status.updating ?? []).map(({ task }) => task);

describe("decideRollout", () => {
  it("creates the first tasks at the same time", () => {
    const { status, postpone, createStable } = decide([missing(0), missing(1)], { revision: 1, before: undefined });
    expect([...postpone, ...createStable]).toEqual([]);
    expect(status.phase).toBe("completed");
  });

  it("records maxParallel tasks before it stops them", () => {
    const copies = [copy(0), copy(1), copy(2)];
    const first = decide(copies);
    expect(first.stop).toEqual([]);
    expect(updatingOf(first)).toEqual(["run/0", "run/1"]);
    const second = decide(copies, { before: first.status });
    expect(second.stop).toEqual(["run/0", "run/1"]);
    expect(updatingOf(second)).toEqual(["run/0", "run/1"]);
    expect(second.status).toEqual(first.status);
  });

  it("continues with the next task when one is healthy", () => {
    const before = progressing({ updating: [{ task: "run/0", since: after(0) }] });
    const one = { policy: policy({ maxParallel: 1 }) };
    const starting = copy(0, { revision: 2, condition: "starting", availableAtMs: t0 + 10_000 });
    const waits = decide([starting, copy(1)], { before, ...one });
    expect(updatingOf(waits)).toEqual(["run/0"]);
    expect(waits.requeueAfterMs).toBe(10_000);
    const next = decide([copy(0, { revision: 2 }), copy(1)], { before, ...one, now: t0 + 10_000 });
    expect(updatingOf(next)).toEqual(["run/1"]);
    expect(next.status.progressAt).toBe(after(10_000));
  });

  it("updates tasks that do not run first", () => {
    expect(updatingOf(decide([copy(0), copy(1), copy(2, { condition: "failed" })]))).toEqual(["run/2", "run/0"]);
  });

  it("creates a task that is missing during a rollout from the stable revision, and one that it lacks in turn", () => {
    const { createStable, postpone } = decide([copy(0), missing(1), missing(2, { isInStable: false })], {
      policy: policy({ maxParallel: 1 }),
    });
    expect([...createStable]).toEqual(["run/1"]);
    expect([...postpone]).toEqual(["run/2"]);
  });

  it("creates a stopped task from the new revision", () => {
    const before = progressing({ updating: [{ task: "run/0", since: after(0) }] });
    const { createStable, postpone } = decide([missing(0), copy(1)], { before, policy: policy({ maxParallel: 1 }) });
    expect([...createStable, ...postpone]).toEqual([]);
  });

  it.each([
    [{ condition: "failed" }, "the task failed"],
    [{ condition: "starting" }, "not healthy within 60s"],
  ] as const)("fails with the first unhealthy task: %o", (state, problem) => {
    const before = progressing({ updating: [{ task: "run/0", robot: "robot-0", since: after(0) }] });
    const { status, stop } = decide([copy(0, { revision: 2, ...state }), copy(1)], {
      before,
      policy: policy({ healthyDeadline: "1m" }),
      now: t0 + 60_000,
    });
    expect(status).toMatchObject({ phase: "failed", reason: "UnhealthyTasks", unhealthy: 1 });
    expect(status.message).toBe(
      `1 of 2 tasks run revision 2, 0 healthy, 1 unhealthy; 1 unhealthy, such as run/0 on robot-0 (${problem}), at most 0 allowed`,
    );
    expect(stop).toEqual([]);
  });

  it("tolerates unhealthy tasks up to the threshold, and continues without them", () => {
    const before = progressing({ updating: [{ task: "run/0", since: after(0), problem: "the task failed" }] });
    const copies = [copy(0, { revision: 2, condition: "failed" }), copy(1)];
    const threshold = { policy: policy({ abortThreshold: "10%" }, 10) };
    expect(updatingOf(decide(copies, { before, ...threshold }))).toEqual(["run/0", "run/1"]);
    const last = decide([copies[0] ?? copy(0), copy(1, { revision: 2 })], { before, ...threshold });
    expect(last.status).toMatchObject({ phase: "completed", unhealthy: 1 });
  });

  it("stops nothing more once it failed, and forgets tasks that it did not stop", () => {
    const before = progressing({ phase: "failed", message: "why", updating: [{ task: "run/1", since: after(0) }] });
    const { status, stop, requeueAfterMs } = decide([copy(0, { revision: 2, condition: "failed" }), copy(1)], { before });
    expect(stop).toEqual([]);
    expect(status).toMatchObject({ phase: "failed", message: "why" });
    expect(status.updating?.map(({ task }) => task)).toEqual(["run/0"]);
    expect(requeueAfterMs).toBeUndefined();
  });

  it("fails if no task becomes healthy within the progress deadline, but not while it waits", () => {
    const before = progressing();
    const late = { before, now: t0 + 600_000, policy: policy({ progressDeadline: "10m", healthyDeadline: "1h" }) };
    expect(decide([copy(0)], late).status).toMatchObject({ phase: "failed", reason: "ProgressDeadlineExceeded" });
    const paused = decide([copy(0)], { ...late, isPaused: true });
    expect(paused.status).toMatchObject({ phase: "waiting", reason: "Paused" });
    expect(decide([copy(0)], { ...late, before: paused.status }).status).toMatchObject({
      phase: "progressing",
      progressAt: after(600_000),
    });
  });

  it("updates no more robots that return if too many of those before them are unhealthy", () => {
    const failed = (index: number) => copy(index, { revision: 2, condition: "failed" });
    const entries = [0, 1].map((index) => ({ task: `run/${index}`, since: after(0) }));
    const over = { ...progressing({ updating: entries }), phase: "completed" } as const;
    const copies = [failed(0), failed(1), copy(2)];
    const held = decide(copies, { before: over, policy: policy({ maxParallel: 2, abortThreshold: 1 }) });
    expect(held.status).toMatchObject({ phase: "completed", reason: "UnhealthyTasks", unhealthy: 2 });
    expect(updatingOf(held)).toEqual(["run/0", "run/1"]);
    const tolerated = decide(copies, { before: over, policy: policy({ maxParallel: 2, abortThreshold: 2 }) });
    expect(updatingOf(tolerated)).toEqual(["run/0", "run/1", "run/2"]);
    // A revert updates all robots.
    expect(updatingOf(decide(copies, { before: over, isRevert: true }))).toContain("run/2");
  });

  it("skips offline robots, completes without them, and updates them when they return", () => {
    const offline = copy(1, { isOffline: true });
    const { status } = decide([copy(0, { revision: 2 }), offline], { before: progressing() });
    expect(status).toMatchObject({ phase: "completed", offline: 1 });
    expect(status.message).toBe("1 of 2 tasks run revision 2, 1 healthy, 1 follow when their robot returns");
    const back = decide([copy(0, { revision: 2 }), copy(1)], { before: status, stable: 2 });
    expect(updatingOf(back)).toEqual(["run/1"]);
    expect(back.status.phase).toBe("completed");
  });

  it("counts the health deadline anew when a robot returns in the middle of its update", () => {
    const before = progressing({ updating: [{ task: "run/0", since: after(0) }] });
    const away = decide([copy(0, { revision: 2, condition: "starting", isOffline: true }), copy(1)], {
      before,
      now: t0 + 3_600_000,
      policy: policy({ maxParallel: 1, progressDeadline: "24h" }),
    });
    expect(away.status.updating).toEqual([
      { task: "run/0", since: after(0), isOffline: true },
      { task: "run/1", robot: "robot-1", since: after(3_600_000) },
    ]);
    const back = decide([copy(0, { revision: 2, condition: "starting" }), copy(1)], {
      before: away.status,
      now: t0 + 3_700_000,
      policy: policy({ maxParallel: 1, progressDeadline: "24h" }),
    });
    expect(back.status.updating?.[0]).toEqual({ task: "run/0", since: after(3_700_000) });
  });

  it("waits for the promotion of its canaries", () => {
    const canary = { policy: policy({ canary: 1, maxParallel: 3 }) };
    const copies = [copy(0), copy(1), copy(2)];
    const first = decide(copies, canary);
    expect(updatingOf(first)).toEqual(["run/0"]);
    const healthy = [copy(0, { revision: 2 }), copy(1), copy(2)];
    const waits = decide(healthy, { ...canary, before: first.status });
    expect(waits.status).toMatchObject({ phase: "waiting", reason: "AwaitingPromotion" });
    expect(decide(healthy, { ...canary, before: waits.status, now: t0 + 5_000 }).status).toEqual(waits.status);
    expect(updatingOf(decide(healthy, { ...canary, before: waits.status, isPromoted: true }))).toEqual(["run/1", "run/2"]);
  });

  it("finishes a wave before it starts the next", () => {
    const copies = [copy(0, { wave: 1 }), copy(1), copy(2, { wave: 1 })];
    const first = decide(copies, { policy: policy({ maxParallel: 3 }) });
    expect(updatingOf(first)).toEqual(["run/1"]);
    const middle = decide([copies[0] ?? copy(0), copy(1, { revision: 2, condition: "starting" }), copies[2] ?? copy(2)], {
      before: first.status,
      policy: policy({ maxParallel: 3 }),
    });
    expect(updatingOf(middle)).toEqual(["run/1"]);
    const next = decide([copies[0] ?? copy(0), copy(1, { revision: 2 }), copies[2] ?? copy(2)], {
      before: first.status,
      policy: policy({ maxParallel: 3 }),
    });
    expect(updatingOf(next)).toEqual(["run/0", "run/2"]);
  });

  it("waiting for a maintenance window, which a revert ignores", () => {
    const window = { kind: "closed", opensAtMs: t0 + 60_000 } as const;
    const waits = decide([copy(0)], { window });
    expect(waits.status).toMatchObject({ phase: "waiting", reason: "OutsideMaintenanceWindow" });
    expect(waits.status.message).toContain("waiting for a maintenance window, which opens at 2026-01-01T00:01:00.000Z");
    expect(waits.requeueAfterMs).toBe(60_000);
    const revert = decide([copy(0, { revision: 2 })], { window, revision: 1, isRevert: true, before: progressing() });
    expect(updatingOf(revert)).toEqual(["run/0"]);
  });

  it("reverts unhealthy tasks first, and does not fail", () => {
    const copies = [copy(0, { revision: 2 }), copy(1, { revision: 2, condition: "failed" })];
    const revert = { revision: 1, isRevert: true, policy: policy({ maxParallel: 1 }) };
    const first = decide(copies, { ...revert, before: progressing({ phase: "failed" }) });
    expect(updatingOf(first)).toEqual(["run/1"]);
    const stuck = decide([copies[0] ?? copy(0), copy(1, { condition: "failed" })], { ...revert, before: first.status });
    expect(updatingOf(stuck)).toEqual(["run/1", "run/0"]);
    expect(stuck.status.phase).toBe("progressing");
  });

  it("removes tasks that the revision does not have last, and not all at the same time", () => {
    const surplus = { total: 5, deleting: 0 };
    expect(decide([copy(0)], { surplus }).removeSurplus).toBe(0);
    const last = decide([copy(0, { revision: 2 })], { surplus, before: progressing() });
    expect(last.removeSurplus).toBe(2);
    expect(last.status.phase).toBe("progressing");
  });

  it("counts tasks that an earlier rollout has stopped, unless their robot is offline or does not confirm the end", () => {
    const deleting = copy(0, { isDeleting: true, deletedAtMs: t0 });
    const third = { revision: 3, before: progressing(), policy: policy({ maxParallel: 2, healthyDeadline: "1m" }) };
    const first = decide([deleting, missing(1), copy(2)], third);
    expect(updatingOf(first)).toEqual([]);
    expect(first.requeueAfterMs).toBe(60_000);
    expect(updatingOf(decide([deleting, copy(1), copy(2)], third))).toEqual(["run/1"]);
    expect(updatingOf(decide([{ ...deleting, isOffline: true }, copy(1), copy(2)], third))).toEqual(["run/1", "run/2"]);
    const revert = { ...third, revision: 1, isRevert: true, now: t0 + 60_000 };
    const failed = [1, 2].map((index) => copy(index, { revision: 2 }));
    expect(updatingOf(decide([deleting, ...failed], revert))).toEqual(["run/1", "run/2"]);
  });

  it("creates copies that no earlier revision has in turn", () => {
    const added = [0, 1, 2].map((index) => missing(index, { isInStable: false }));
    expect(updatingOf(decide([...added, copy(3)]))).toEqual(["run/0", "run/1"]);
  });

  it.each([{ isPaused: true }, { before: progressing({ phase: "failed" }) }])(
    "removes tasks that no revision has immediately, even if the rollout does not progress: %j",
    (state) => {
      const surplus = { total: 5, deleting: 0, unneeded: 3 };
      expect(decide([copy(0)], { surplus, ...state }).removeSurplus).toBe(3);
    },
  );

  it("removes surplus tasks immediately outside a rollout", () => {
    const scaled = decide([copy(0)], { revision: 1, surplus: { total: 5, deleting: 0 }, isPaused: true });
    expect(scaled.removeSurplus).toBe(5);
  });
});
