import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { Task } from "../../api/task.ts";
import { decideReport } from "../../bridge/report-decision.ts";
import { onlyCopy } from "../../placement/spread.ts";
import { after, robotOf, t0, taskOf } from "../../testing/objects.ts";
import { lostAfterMs } from "./deletion-decision.ts";
import { statusAfter } from "../tasks/task-status.ts";
import { decideTask, type TaskDecision, type TaskObservation } from "../tasks/task-decision.ts";

const decide = (task: TaskObservation["task"], rest: Partial<TaskObservation> = {}): TaskDecision =>
  decideTask({
    task,
    job: undefined,
    robots: [robotOf("robot-001")],
    usesOf: () => [],
    preemptorsOf: () => [],
    copies: () => onlyCopy,
    now: t0,
    ...rest,
  });

const running: Task["status"] = { state: "running", attempt: 1, seq: 1 };
const deleting = (status: DeepReadonly<Task["status"]>, bound = true): DeepReadonly<Task> => ({
  ...taskOf(undefined, { bound, deleting: true }),
  ...(status === undefined ? {} : { status }),
});
const offlineRobot = (name: string, since: string) =>
  robotOf(name, {
    status: {
      phase: "Offline",
      conditions: [{ type: "Online", status: "False", lastTransitionTime: since, reason: "x", message: "" }],
    },
  });
const offline = (since: string) => offlineRobot("robot-001", since);

describe("a Task that is being deleted", () => {
  it("is ignored if it cannot be on a robot", () => {
    expect(decide(deleting({ state: "pending" }, false))).toEqual({ kind: "leave" });
    expect(decide(deleting(undefined))).toMatchObject({ kind: "release", why: "it was never dispatched" });
  });

  it("is not scheduled", () => {
    expect(decide(taskOf(undefined, { deleting: true }))).toEqual({ kind: "leave" });
  });

  it("waits for its robot while the robot is online", () => {
    expect(decide(deleting(running))).toEqual({ kind: "leave" });
  });

  it("is released once the robot has removed it", () => {
    const conditions = [{ type: "Released", status: "True", lastTransitionTime: after(0), reason: "x", message: "" }] as const;
    expect(decide(deleting({ ...running, conditions: [...conditions] }))).toMatchObject({ kind: "release" });
  });

  it("is released if the robot was deleted", () => {
    expect(decide(deleting(running), { robots: [robotOf("robot-002")] })).toMatchObject({
      kind: "release",
      why: "its robot was deleted",
    });
  });

  it("counts from when the robot went offline, which may be before the deletion", () => {
    const robots = [offline(after(-lostAfterMs))];
    expect(decide(deleting(running), { robots })).toMatchObject({ kind: "release" });
  });

  it("is released once the robot was offline long enough, not before", () => {
    const robots = [offline(after(0))];
    expect(decide(deleting(running), { robots, now: t0 + lostAfterMs - 1 })).toEqual({ kind: "leave", requeueAfterMs: 1 });
    expect(decide(deleting(running), { robots, now: t0 + lostAfterMs })).toMatchObject({ kind: "release" });
  });
});

describe("a Task with a displaced attempt that is being deleted", () => {
  const moved: NonNullable<Task["status"]> = {
    state: "pending",
    attempt: 1,
    seq: 1,
    movedFrom: "robot-001",
    displaced: { robot: "robot-001", attempt: 1, stop: true },
  };
  const deleted = {
    taskUid: "00000000-0000-4000-8000-000000000001",
    robotName: "robot-001",
    state: "deleted",
    message: "",
    event: "Deleted",
    updatedAt: after(0),
    attempt: 1,
    seq: 2,
  } as const;
  const both = [robotOf("robot-001"), robotOf("robot-002")];

  it.each([true, undefined])("is released once the robot that it left has removed it (stop: %s)", (stop) => {
    const task = deleting({ ...moved, displaced: { robot: "robot-001", attempt: 1, ...(stop && { stop }) } });
    expect(decide(task)).toEqual({ kind: "leave" });
    const report = decideReport(task, "robot-001", deleted, t0);
    if (report.kind !== "write") throw new Error(report.kind);
    expect(report.status.conditions).toMatchObject([{ type: "Released", status: "True" }]);
    expect(decide({ ...task, status: { ...task.status, ...report.status } })).toMatchObject({ kind: "release" });
  });

  it("is released if the robot removed it shortly before the deletion, or if the lease has expired", () => {
    expect(decide(deleting({ ...moved, removedAttempt: 1 }))).toMatchObject({ kind: "release" });
    const lease = { attempt: 1, grantsUntil: after(0) };
    const leased = taskOf(
      { ...moved, lease },
      { bound: true, deleting: true, spec: { disconnect: { lostAfter: "100s", onRobot: "stop" } } },
    );
    expect(decide(leased, { now: t0 + 110_000 }).kind).toBe("leave");
    expect(decide(leased, { now: t0 + 111_000 })).toMatchObject({ kind: "release", why: "the lease of its robot has expired" });
  });

  it("waits for both robots if it runs on another one", () => {
    const status = { ...running, attempt: 2, displaced: { robot: "robot-002", attempt: 1 } };
    const stop = decide(deleting(status), { robots: both });
    expect(stop).toEqual({ kind: "reconcile", displaced: { kind: "stop" } });
    if (stop.kind !== "reconcile") throw new Error(stop.kind);
    const stopping = deleting({ ...status, ...statusAfter(deleting(status), stop, t0) });
    expect(decide(stopping, { robots: both })).toEqual({ kind: "leave" });
    const conditions = [{ type: "Released", status: "True", lastTransitionTime: after(0), reason: "x", message: "" }] as const;
    const released = deleting({ ...stopping.status, conditions: [...conditions] });
    expect(decide(released, { robots: both })).toEqual({ kind: "leave" });
    const away = [robotOf("robot-001"), offlineRobot("robot-002", after(0))];
    expect(decide(released, { robots: away })).toEqual({ kind: "leave", requeueAfterMs: lostAfterMs });
    const forget = { kind: "reconcile", displaced: { kind: "forget" } };
    expect(decide(released, { robots: away, now: t0 + lostAfterMs })).toEqual(forget);
    const report = decideReport(released, "robot-002", { ...deleted, robotName: "robot-002" }, t0);
    if (report.kind !== "write") throw new Error(report.kind);
    expect(report.status).toMatchObject({ removedAttempt: 1, conditions: [{ type: "Released" }] });
    expect(decide(deleting({ ...stopping.status, ...report.status }), { robots: both })).toEqual(forget);
  });

  it("stops an attempt whose adoption has not begun", () => {
    const status: Task["status"] = {
      ...moved,
      attempt: 2,
      displaced: { robot: "robot-001", attempt: 2, stop: true },
      adopted: { robot: "robot-002", attempt: 1 },
    };
    const stop = decide(deleting(status), { robots: both });
    if (stop.kind !== "reconcile") throw new Error(stop.kind);
    const stopped = statusAfter(deleting(status), stop, t0);
    expect(stopped).toMatchObject({ attempt: 2, displaced: { robot: "robot-002", attempt: 1, stop: true } });
    expect(stopped.adopted).toBeUndefined();
  });
});
