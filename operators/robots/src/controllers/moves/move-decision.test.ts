import { describe, expect, it } from "vitest";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import { onlyCopy } from "../../placement/spread.ts";
import { after, robotOf, t0, taskOf } from "../../testing/objects.ts";
import { dispatchedStatus, statusAfter } from "../tasks/task-status.ts";
import { decideTask, type TaskDecision } from "../tasks/task-decision.ts";

const minuteMs = 60_000;
const offline = (name: string, sinceMs = 0): ReturnType<typeof robotOf> => {
  const condition = { type: "Online", status: "False", lastTransitionTime: after(sinceMs), reason: "x", message: "" } as const;
  return robotOf(name, { status: { phase: "Offline", message: "gone", conditions: [condition] } as Robot["status"] });
};
const fleet = [offline("robot-001"), robotOf("robot-002")];
const decide = (
  task: ReturnType<typeof taskOf>,
  now: number,
  robots: readonly ReturnType<typeof robotOf>[] = fleet,
): TaskDecision =>
  decideTask({ task, job: undefined, robots, usesOf: () => [], preemptorsOf: () => [], copies: () => onlyCopy, now });
const withStatus = (spec: Partial<Task["spec"]>, status: Task["status"]) =>
  taskOf(status, { bound: true, spec: { jobName: "", ...spec } });

const leased: NonNullable<Task["status"]> = {
  state: "running",
  attempt: 1,
  seq: 1,
  lease: { attempt: 1, grantsUntil: after(0) },
};
const stop: Partial<Task["spec"]> = { disconnect: { lostAfter: "2m", onRobot: "stop" } };
const messageOf = (decision: TaskDecision): string => ("message" in decision ? (decision.message ?? "") : decision.kind);

describe("an exclusive task whose robot is lost", () => {
  it("moves once the robot's lease has expired, and says when that is", () => {
    expect(messageOf(decide(withStatus(stop, leased), t0))).toContain(
      `moves to another robot at ${after(2 * minuteMs + 1_200 + 10_000)}, when the robot's lease has expired`,
    );
    expect(decide(withStatus(stop, leased), t0 + 2 * minuteMs + 11_199).kind).toBe("lose");
    expect(decide(withStatus(stop, leased), t0 + 2 * minuteMs + 11_200)).toMatchObject({ kind: "move", from: "robot-001" });
  });

  it("waits for the lease with which it was dispatched, even if lostAfter was lowered since", () => {
    const attempt = { robot: "robot-001", attempt: 1, isRestart: false, isLeased: true };
    const { lease } = dispatchedStatus(withStatus(stop, undefined), attempt, t0);
    expect(lease).toEqual({ attempt: 1, grantsUntil: after(0), durationMs: 2 * minuteMs });
    const lowered: Partial<Task["spec"]> = { disconnect: { lostAfter: "10s", onRobot: "stop" } };
    const task = withStatus(lowered, { ...leased, ...(lease === undefined ? {} : { lease }) });
    expect(decide(task, t0 + 2 * minuteMs + 11_199).kind).toBe("lose");
    expect(decide(task, t0 + 2 * minuteMs + 11_200).kind).toBe("move");
  });

  it("waits longer if the bridge could not say when it last granted the lease", () => {
    const status = { ...leased, lease: { attempt: 1, grantsUntil: after(15 * minuteMs) } };
    expect(decide(withStatus(stop, status), t0 + 10 * minuteMs).kind).toBe("lose");
    expect(decide(withStatus(stop, status), t0 + 18 * minuteMs).kind).toBe("move");
  });

  it.each([
    [
      "the agent does not enforce leases",
      stop,
      { ...leased, lease: { attempt: 0, grantsUntil: after(0) } },
      "the agent of robot-001 does not enforce leases, so its program may still be running",
    ],
    ["replace is false", { disconnect: { replace: false } }, leased, "spec.disconnect.replace is false"],
    ["it is a system task", { ...stop, type: "system" as const }, leased, "the task is pinned to robot-001"],
    [
      "its moves are used up",
      { ...stop, reschedulePolicy: { attempts: 1, interval: "1h" } },
      { ...leased, moveWindowStart: after(0), movesInWindow: 1 },
      "1 of 1 moves within 1h are used up",
    ],
  ] as const)("stays if %s, and says so", (_, spec, status, why) => {
    const decision = decide(withStatus(spec, status), t0 + 30 * minuteMs);
    expect(messageOf(decision)).toContain(`not moved to another robot because ${why}`);
  });

  it("stays if the user chose its robot", () => {
    const scheduled = {
      type: "Scheduled",
      status: "True",
      lastTransitionTime: after(0),
      reason: "RobotPinned",
      message: "",
    } as const;
    const decision = decide(withStatus(stop, { ...leased, conditions: [scheduled] }), t0 + 30 * minuteMs);
    expect(messageOf(decision)).toContain("the task is pinned to robot-001");
  });

  it("waits for another robot, and goes back to its own only if no other fits", () => {
    const task = withStatus(stop, leased);
    const decision = decide(task, t0 + 3 * minuteMs);
    if (decision.kind !== "move") throw new Error(decision.kind);
    const moved = { ...task, status: statusAfter(task, decision, t0 + 3 * minuteMs) };
    expect(moved.status).toMatchObject({ state: "pending", reason: "Moved", movedFrom: "robot-001", moves: 1, attempt: 1 });
    const all = [robotOf("robot-001"), robotOf("robot-002")];
    expect(decide(moved, t0 + 4 * minuteMs, all)).toMatchObject({ kind: "bind", robot: "robot-002" });
    expect(decide(moved, t0 + 4 * minuteMs, [robotOf("robot-001")])).toMatchObject({ kind: "bind", robot: "robot-001" });
    expect(decide(moved, t0 + 4 * minuteMs, [offline("robot-001")]).kind).toBe("wait");
  });
});

describe("a task that may run twice", () => {
  const keep: Partial<Task["spec"]> = { disconnect: { lostAfter: "1m", onRobot: "keep", reconcile: "keepOriginal" } };
  const replaced: NonNullable<Task["status"]> = {
    state: "running",
    attempt: 2,
    seq: 1,
    movedFrom: "robot-000",
    displaced: { robot: "robot-002", attempt: 1 },
  };

  it("gets a replacement while its program may still be running", () => {
    const running = { state: "running", attempt: 1, seq: 1 } as const;
    expect(decide(withStatus(keep, running), t0 + minuteMs)).toMatchObject({
      kind: "move",
      displaced: { robot: "robot-001", attempt: 1 },
    });
  });

  it("keeps the original and stops the replacement when the robot returns", () => {
    const task = withStatus(keep, replaced);
    const decision = decide(task, t0);
    expect(decision).toMatchObject({
      kind: "reconcile",
      displaced: { kind: "adopt", original: { robot: "robot-002", attempt: 1 }, stop: { robot: "robot-001", attempt: 2 } },
    });
    if (decision.kind !== "reconcile") throw new Error(decision.kind);
    const status = statusAfter(task, decision, t0);
    expect(status).toMatchObject({
      state: "pending",
      adopted: { robot: "robot-002", attempt: 1 },
      displaced: { robot: "robot-001", attempt: 2, stop: true },
    });
    expect(decide({ ...task, status }, t0)).toMatchObject({ kind: "bind", robot: "robot-002" });
  });

  it.each([
    ["with keepReplacement", { disconnect: { ...keep.disconnect, reconcile: "keepReplacement" as const } }, replaced],
    ["once the task has ended", keep, { ...replaced, state: "completed" as const }],
  ])("stops the original %s", (_, spec, status) => {
    const task = withStatus(spec, status);
    const decision = decide(task, t0);
    expect(decision).toEqual({ kind: "reconcile", displaced: { kind: "stop" } });
    if (decision.kind !== "reconcile") throw new Error(decision.kind);
    expect(statusAfter(task, decision, t0).displaced).toEqual({ robot: "robot-002", attempt: 1, stop: true });
  });

  it("forgets an attempt that its robot has removed, or whose Robot was deleted", () => {
    const forget = { kind: "reconcile", displaced: { kind: "forget" } };
    expect(decide(withStatus(keep, { ...replaced, removedAttempt: 1 }), t0)).toEqual(forget);
    expect(decide(withStatus(keep, replaced), t0, [robotOf("robot-001")])).toEqual(forget);
  });
});

describe("a task on a robot that is being drained", () => {
  const draining = (deadline?: string, agentFeatures = ["leases"]) =>
    robotOf("robot-001", {
      spec: { unschedulable: true, drain: deadline === undefined ? {} : { deadline } },
      status: { phase: "Online", agentFeatures },
    });
  const running = { state: "running", attempt: 1, seq: 1 } as const;

  it("moves once its robot has confirmed that it stopped the program", () => {
    const robots = [draining(), robotOf("robot-002")];
    const task = withStatus({ type: "service" }, running);
    const decision = decide(task, t0, robots);
    expect(decision).toMatchObject({ kind: "move", displaced: { robot: "robot-001", attempt: 1, stop: true } });
    if (decision.kind !== "move") throw new Error(decision.kind);
    const moved = { ...task, status: statusAfter(task, decision, t0) };
    expect(moved.status).toMatchObject({ state: "pending", message: "moved from robot-001: robot-001 is being drained" });
    expect(decide(moved, t0, robots)).toEqual({
      kind: "wait-for-stop",
      message: "waits until robot-001 has stopped attempt 1",
    });
    const removed = { ...moved, status: { ...moved.status, removedAttempt: 1 } };
    const forget = decide(removed, t0, robots);
    if (forget.kind !== "reconcile") throw new Error(forget.kind);
    expect(decide({ ...removed, status: statusAfter(removed, forget, t0) }, t0, robots)).toMatchObject({
      kind: "bind",
      robot: "robot-002",
    });
  });

  it("may finish until the deadline if it is a batch task", () => {
    const robots = [draining(after(60_000)), robotOf("robot-002")];
    expect(decide(withStatus({}, running), t0, robots)).toEqual({ kind: "leave", requeueAfterMs: 60_000 });
    expect(decide(withStatus({}, running), t0 + 60_000, robots).kind).toBe("move");
    expect(decide(withStatus({ type: "service" }, running), t0, robots).kind).toBe("move");
  });

  it("stays if it is pinned, or if the robot's agent does not confirm deletions", () => {
    expect(decide(withStatus({ type: "system" }, running), t0, [draining()])).toEqual({ kind: "leave" });
    expect(decide(withStatus({}, running), t0, [draining(undefined, [])])).toEqual({ kind: "leave" });
  });
});

describe("a task that fails on its robot", () => {
  const spec: Partial<Task["spec"]> = { restartPolicy: { attempts: 0 }, reschedulePolicy: { attempts: 2, delay: "30s" } };
  const failed: NonNullable<Task["status"]> = { state: "exited", attempt: 1, message: "exit code 3" };
  const online = [robotOf("robot-001"), robotOf("robot-002")];

  it("moves after the delay of its reschedule policy", () => {
    const task = withStatus(spec, failed);
    const plan = decide(task, t0, online);
    expect(plan).toMatchObject({ kind: "plan-move", atMs: t0 + 30_000, message: "exit code 3" });
    if (plan.kind !== "plan-move") throw new Error(plan.kind);
    const planned = { ...task, status: { ...failed, ...statusAfter(task, plan, t0) } };
    expect(planned.status.message).toBe(`exit code 3; moves to another robot at ${after(30_000)}`);
    expect(decide(planned, t0 + 29_999, online)).toEqual({ kind: "leave", requeueAfterMs: 1 });
    expect(decide(planned, t0 + 30_000, online)).toMatchObject({ kind: "move", from: "robot-001" });
  });

  it("fails and says why once its moves are used up", () => {
    const used = { ...failed, moveWindowStart: after(0), movesInWindow: 2 };
    expect(decide(withStatus(spec, used), t0, online)).toEqual({
      kind: "fail",
      reason: "Failed",
      message: "exit code 3 (2 of 2 moves within 24h are used up)",
    });
  });

  it("moves without restarts if the failure would repeat itself on this robot", () => {
    const restartPolicy = { attempts: 3, delay: "0s" };
    expect(decide(withStatus({ ...spec, restartPolicy }, { ...failed, permanent: true }), t0, online).kind).toBe("plan-move");
  });

  it("starts again without counting a restart if its robot stopped it for its lease", () => {
    expect(decide(withStatus(spec, { ...failed, reason: "LeaseExpired" }), t0, online)).toMatchObject({
      kind: "dispatch",
      attempt: 2,
    });
  });
});

describe("an attempt that its robot was asked to stop", () => {
  const stopping: NonNullable<Task["status"]> = {
    state: "pending",
    attempt: 1,
    movedFrom: "robot-001",
    displaced: { robot: "robot-001", attempt: 1, stop: true },
  };
  const lease = { attempt: 1, grantsUntil: after(0) };
  const spec: Partial<Task["spec"]> = { disconnect: { lostAfter: "100s", onRobot: "stop" } };
  const robots = [robotOf("robot-001", { status: { phase: "Offline" } }), robotOf("robot-002")];

  it("has ended when its lease has expired, even if the robot does not confirm it", () => {
    const task = withStatus(spec, { ...stopping, lease });
    const message = "waits until robot-001 has stopped attempt 1";
    expect(decide(task, t0, robots)).toEqual({ kind: "wait-for-stop", message, requeueAfterMs: 111_000 });
    expect(decide(task, t0 + 110_999, robots)).toEqual({ kind: "wait-for-stop", message, requeueAfterMs: 1 });
    expect(decide(task, t0 + 111_000, robots)).toEqual({ kind: "reconcile", displaced: { kind: "forget" } });
  });

  it("keeps the reason for which the task was stopped", () => {
    const status = { ...stopping, reason: "Preempted" };
    const task = withStatus(spec, status);
    const decision = decide(task, t0, robots);
    if (decision.kind !== "wait-for-stop") throw new Error(decision.kind);
    expect(statusAfter(task, decision, t0)).toMatchObject({
      state: "pending",
      reason: "Preempted",
      message: "waits until robot-001 has stopped attempt 1",
      conditions: [{ type: "Scheduled", status: "False", reason: "Preempted" }],
    });
  });

  it("is replaced if it may run twice and its robot is lost, and is stopped when the robot returns", () => {
    const keep = (rest = {}): Partial<Task["spec"]> => ({ disconnect: { lostAfter: "1m", onRobot: "keep", ...rest } });
    const away = [offline("robot-001"), robotOf("robot-002")];
    const task = withStatus(keep(), stopping);
    expect(decide(task, t0 + minuteMs - 1, away)).toMatchObject({ kind: "wait-for-stop", requeueAfterMs: 1 });
    expect(decide(task, t0 + minuteMs, away)).toMatchObject({ kind: "bind", robot: "robot-002" });
    expect(decide(task, t0 + 1e9, [robotOf("robot-001"), robotOf("robot-002")]).kind).toBe("wait-for-stop");
    expect(decide(withStatus(keep({ replace: false }), stopping), t0 + 1e9, away).kind).toBe("wait-for-stop");
    const status = dispatchedStatus(task, { robot: "robot-002", attempt: 2, isRestart: false, isLeased: false }, t0);
    expect(status.displaced).toEqual(stopping.displaced);
  });

  it.each([{ disconnect: { lostAfter: "10s" } }, {}])("keeps the lease with which it was dispatched, under %j", (changed) => {
    const task = withStatus(changed, { ...stopping, lease: { ...lease, durationMs: 100_000 } });
    expect(decide(task, t0 + 110_999, robots).kind).toBe("wait-for-stop");
    expect(decide(task, t0 + 111_000, robots).kind).toBe("reconcile");
  });

  it("may be running for ever without a lease of this attempt", () => {
    for (const status of [stopping, { ...stopping, lease: { ...lease, attempt: 2 } }]) {
      expect(decide(withStatus(spec, status), t0 + 1e9, robots).kind).toBe("wait-for-stop");
    }
    expect(decide(withStatus({}, { ...stopping, lease }), t0 + 1e9, robots).kind).toBe("wait-for-stop");
  });
});
