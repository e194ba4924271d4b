import { describe, expect, it } from "vitest";
import type { Task } from "../../api/task.ts";
import { after, jobOf, robotOf, t0, taskOf } from "../../testing/objects.ts";
import { onlyCopy } from "../../placement/spread.ts";
import { statusAfter } from "./task-status.ts";
import { decideTask, type TaskObservation } from "./task-decision.ts";

const decide = (task: TaskObservation["task"], rest: Partial<TaskObservation> = {}) =>
  decideTask({
    task,
    job: jobOf(),
    robots: [robotOf("robot-001")],
    usesOf: () => [],
    preemptorsOf: () => [],
    copies: () => onlyCopy,
    now: t0,
    ...rest,
  });

const running: Task["status"] = { state: "running", attempt: 1, seq: 1 };

describe("a Task without a robot", () => {
  it.each([undefined, "", "pending"] as const)("is bound if a robot fits, in state %j (B2)", (state) => {
    expect(decide(taskOf(state === undefined ? undefined : { state }))).toEqual({
      kind: "bind",
      robot: "robot-001",
      isPinned: false,
    });
  });

  it("waits and says why if no robot fits", () => {
    expect(decide(taskOf(), { robots: [] })).toEqual({
      kind: "wait",
      message: "no robot fits: there are no robots in this namespace",
    });
  });

  it("uses the Job's robotSelector if it has none (B1)", () => {
    const task = taskOf(undefined, { spec: { robotSelector: undefined } });
    expect(decide(task, { job: jobOf({ robotSelector: { env: "prod" } }) })).toEqual({
      kind: "wait",
      message: "0/1 robots fit: 1 not matching robotSelector env=prod",
    });
  });

  it("waits for a missing Job and says so", () => {
    const decision = decide(taskOf(undefined, { spec: { robotSelector: undefined } }), { job: undefined });
    expect(decision).toEqual({
      kind: "wait",
      message: "spec.jobName: Job hello not found, so the robotSelector is unknown",
    });
  });

  it("does not need a Job if it names none (B1)", () => {
    const task = taskOf(undefined, { spec: { robotSelector: undefined, jobName: "" } });
    expect(decide(task, { job: undefined })).toEqual({ kind: "bind", robot: "robot-001", isPinned: false });
  });

  it("goes only to the robot that spec.targetRobot names", () => {
    const task = taskOf(undefined, { spec: { targetRobot: "robot-002" } });
    expect(decide(task, { robots: [robotOf("robot-001"), robotOf("robot-002")] })).toEqual({
      kind: "bind",
      robot: "robot-002",
      isPinned: true,
    });
    expect(decide(task)).toEqual({ kind: "wait", message: "0/1 robots fit: 1 not the chosen robot robot-002" });
  });

  it("fails if a constraint has an invalid regular expression, and names it", () => {
    const constraints = [{ lTarget: "${attr.os.name}", operand: "regexp", rTarget: "[" } as const];
    expect(decide(taskOf(undefined, { spec: { constraints } }))).toEqual({
      kind: "fail",
      reason: "InvalidConstraint",
      message: expect.stringMatching(/^spec\.constraints: \$\{attr\.os\.name\} regexp \[: the regular expression is invalid/),
    });
  });

  it("fails if it is too large to be sent", () => {
    const decision = decide(taskOf(undefined, { spec: { env: { BIG: "x".repeat(250 * 1024) } } }));
    expect(decision).toMatchObject({ kind: "fail", reason: "TooLarge" });
  });
});

describe("an exited Task that was chosen to be stopped", () => {
  const spec = { restartPolicy: { attempts: 1, interval: "1h", delay: "5s" }, priority: 10 };
  const exited: NonNullable<Task["status"]> = { state: "exited", attempt: 1, seq: 2, message: "exit code 3" };
  const { uid = "", name = "" } = taskOf().metadata;
  const high = taskOf(
    { state: "pending", preemption: { robot: "robot-001", tasks: [{ name, uid, attempt: 1 }] } },
    { uid: "high", name: "high", spec: { priority: 90, preemptionPolicy: "PreemptLowerPriority" } },
  );
  const robots = [robotOf("robot-001", { status: { phase: "Online", agentFeatures: ["leases"] } })];
  const decideChosen = (status: Task["status"]) =>
    decide(taskOf(status, { bound: true, spec }), { robots, preemptorsOf: () => [high] });

  it("fails if its restarts are used up", () => {
    expect(decideChosen({ ...exited, restartWindowStart: after(0), restartsInWindow: 1 }).kind).toBe("fail");
  });

  it("counts the restart before it makes room, and keeps the count", () => {
    expect(decideChosen(exited)).toMatchObject({ kind: "plan-restart", restartsInWindow: 1 });
    const planned = { ...exited, restartAt: after(5000), restartWindowStart: after(0), restartsInWindow: 1 };
    const move = decideChosen(planned);
    if (move.kind !== "move") throw new Error(move.kind);
    const moved = statusAfter(taskOf(planned, { bound: true, spec }), move, t0);
    expect(moved).toMatchObject({ state: "pending", restartWindowStart: after(0), restartsInWindow: 1 });
    expect(moved.restartAt).toBeUndefined();
  });
});

describe("a bound Task", () => {
  it("is dispatched if the controller crashed between binding and dispatching (B3)", () => {
    expect(decide(taskOf(undefined, { bound: true }))).toEqual({
      kind: "dispatch",
      robot: "robot-001",
      attempt: 1,
      isRestart: false,
    });
  });

  it("keeps its robot while the robot is offline", () => {
    const robots = [robotOf("robot-001", { status: { phase: "Offline" } }), robotOf("robot-002")];
    expect(decide(taskOf({ state: "dispatching", attempt: 1 }, { bound: true }), { robots }).kind).toBe("lose");
    expect(decide(taskOf(running, { bound: true }), { robots }).kind).toBe("lose");
  });

  const lostWith = (message: string): Task["status"] => ({
    ...running,
    conditions: [{ type: "Lost", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z", reason: "x", message }],
  });

  it("is lost while its robot is offline, and says since when and why it is not moved", () => {
    const offline = robotOf("robot-001", {
      status: {
        phase: "Offline",
        message: "the robot's agent is not connected",
        conditions: [{ type: "Online", status: "False", lastTransitionTime: after(-60_000), reason: "x", message: "" }],
      },
    });
    const decision = decide(taskOf(running, { bound: true }), { robots: [offline] });
    expect(decision).toEqual({
      kind: "lose",
      since: after(-60_000),
      reason: "RobotNotReporting",
      message: `unknown since ${after(-60_000)}: robot-001: the robot's agent is not connected; not moved to another robot because its program may still be running`,
    });
    const again = taskOf(lostWith(decision.kind === "lose" ? decision.message : ""), { bound: true });
    expect(decide(again, { robots: [offline] })).toEqual({ kind: "leave" });
  });

  it("is lost if its Robot was deleted, since the first time that was seen", () => {
    const decision = decide(taskOf(running, { bound: true }), { robots: [] });
    expect(decision).toMatchObject({ kind: "lose", since: "2026-01-01T00:00:00Z", reason: "RobotDeleted" });
    const later = decide(taskOf(lostWith("x"), { bound: true }), { robots: [], now: t0 + 60_000 });
    expect(later).toMatchObject({ since: "2026-01-01T00:00:00Z" });
  });

  it("recovers when its robot is online again", () => {
    expect(decide(taskOf(lostWith("x"), { bound: true }))).toEqual({ kind: "recover", robot: "robot-001" });
    expect(decide(taskOf(running, { bound: true }))).toEqual({ kind: "leave" });
  });

  it.each(["completed", "failed"] as const)("does not change once it has %s", (state) => {
    const task = taskOf({ state, attempt: 1 }, { bound: true, spec: { restartPolicy: { attempts: 3 } } });
    expect(decide(task)).toEqual({ kind: "leave" });
  });

  it("fails if an attempt failed and there is no restart policy", () => {
    const decision = decide(taskOf({ state: "exited", attempt: 1, message: "exit code 3" }, { bound: true }));
    expect(decision).toEqual({ kind: "fail", reason: "Failed", message: "exit code 3" });
  });

  it("plans the next attempt before starting it", () => {
    const spec = { restartPolicy: { attempts: 2, delay: "5s" } };
    const task = taskOf({ state: "exited", attempt: 1 }, { bound: true, spec });
    expect(decide(task)).toEqual({ kind: "plan-restart", atMs: t0 + 5000, windowStartMs: t0, restartsInWindow: 1 });
    const planned = taskOf({ state: "exited", attempt: 1, restartAt: after(5000), restartsInWindow: 1 }, { bound: true, spec });
    expect(decide(planned, { now: t0 + 2000 })).toEqual({ kind: "leave", requeueAfterMs: 3000 });
    expect(decide(planned, { now: t0 + 5000 })).toEqual({ kind: "dispatch", robot: "robot-001", attempt: 2, isRestart: true });
  });
});
