import type { DeepReadonly } from "@keelson/api-machinery";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Task } from "../api/task.ts";
import type { StatusMessage } from "../protocol/messages.ts";
import { t0, taskOf } from "../testing/objects.ts";
import { decideReport } from "./report-decision.ts";

const dispatching: Task["status"] = { state: "dispatching", attempt: 2, seq: 0 };
const report = (state: StatusMessage["state"], extra: Partial<StatusMessage> = {}): StatusMessage => ({
  taskUid: "00000000-0000-4000-8000-000000000001",
  robotName: "robot-001",
  state,
  message: state,
  event: "Started",
  updatedAt: "2026-01-01T00:00:00Z",
  attempt: 2,
  seq: 1,
  ...extra,
});
const decide = (status: Task["status"], message: StatusMessage, robot = "robot-001", spec: Partial<Task["spec"]> = {}) =>
  decideReport(taskOf(status, { bound: true, spec }), robot, message, t0);

describe("decideReport", () => {
  it("stores a report that advances the state", () => {
    expect(decide(dispatching, report("running", { startedAt: "2026-01-01T00:00:01.000Z" }))).toMatchObject({
      kind: "write",
      status: { state: "running", seq: 1, startedAt: "2026-01-01T00:00:01.000Z" },
    });
    expect(
      decide({ ...dispatching, state: "running", seq: 1, startedAt: "s" }, report("completed", { seq: 2, exitCode: 0 })),
    ).toMatchObject({
      kind: "write",
      status: { state: "completed", exitCode: 0, startedAt: "s", finishedAt: "2026-01-01T00:00:00.000Z" },
    });
  });

  it("stores that a robot downloads artifacts, but not after the start", () => {
    const downloading = report("dispatching", { event: "Downloading" });
    const status = { state: "dispatching", reason: "Downloading", seq: 1 };
    const decision = decide(dispatching, downloading);
    expect(decision).toMatchObject({ kind: "write", status });
    expect(decision).not.toHaveProperty("status.finishedAt");
    expect(decide({ ...dispatching, state: "running", seq: 0 }, downloading).kind).toBe("ignore");
  });

  it("stores since when the checks of a task pass, until its program ends or starts again", () => {
    const running: Task["status"] = { state: "running", attempt: 2, seq: 1, runningSince: "2025-12-31T00:00:00Z" };
    const passing = { ...running, health: "passing" as const, passingSince: "2025-12-31T12:00:00Z" };
    const now = "2026-01-01T00:00:00.000Z";
    const next = (status: Task["status"], extra: Partial<StatusMessage>) => {
      const decision = decide(status, report("running", { seq: 2, event: "Healthy", ...extra }));
      return decision.kind === "write" ? [decision.status.health, decision.status.passingSince] : decision.kind;
    };
    expect(next(running, { health: "passing" })).toEqual(["passing", now]);
    expect(next(passing, { health: "passing" })).toEqual(["passing", "2025-12-31T12:00:00Z"]);
    expect(next(passing, { event: "Unhealthy", health: "failing" })).toEqual(["failing", undefined]);
    expect(next(passing, { event: "Started" })).toEqual([undefined, undefined]);
    expect(next(passing, { event: "Restarting" })).toEqual([undefined, undefined]);
    expect(next({ ...running, health: "failing" }, { health: "passing" })).toEqual(["passing", now]);
    const end = decide(passing, report("failed", { seq: 2, event: "Failed" }));
    expect(end).not.toHaveProperty("status.health");
    // The report of the start was replaced before it arrived.
    const lost = { ...running, reason: "Restarting", runningSince: undefined } as unknown as Task["status"];
    expect(decide(lost, report("running", { seq: 2, event: "Healthy" }))).toHaveProperty("status.runningSince", now);
  });

  it("ignores a robot that the task is not bound to (B5)", () => {
    expect(decide(dispatching, report("completed"), "robot-002").kind).toBe("ignore");
  });

  it.each([1, 3])("ignores reports about attempt %i if the current one is 2 (B5)", (attempt) => {
    expect(decide(dispatching, report("completed", { attempt })).kind).toBe("ignore");
  });

  it.each(["completed", "failed", "exited"] as const)("does not change a task that is %s (B4, F20)", (state) => {
    expect(decide({ ...dispatching, state }, report("running", { seq: 9 })).kind).toBe("ignore");
  });

  it("stores a report once and ignores older ones (F7)", () => {
    expect(decide({ ...dispatching, state: "running", seq: 4 }, report("running", { seq: 4 })).kind).toBe("ignore");
    expect(decide({ ...dispatching, state: "running", seq: 4 }, report("completed", { seq: 3 })).kind).toBe("ignore");
  });

  it("stores a failure as exited if the restart policy allows a restart", () => {
    const state = (policy: Task["spec"]["restartPolicy"]) => {
      const decision = decide(
        dispatching,
        report("failed", { exitCode: 1 }),
        "robot-001",
        policy ? { restartPolicy: policy } : {},
      );
      return decision.kind === "write" ? decision.status.state : undefined;
    };
    expect(state({ attempts: 1 })).toBe("exited");
    expect(state({ attempts: 0 })).toBe("failed");
    expect(state(undefined)).toBe("failed");
  });

  it("stores a permanent failure as failed, whatever the restart policy", () => {
    const spec = { restartPolicy: { attempts: 3 } };
    expect(decide(dispatching, report("failed", { permanent: true }), "robot-001", spec)).toMatchObject({
      status: { state: "failed" },
    });
  });

  it.each(["service", "system"] as const)("stores the success of a %s as exited, so that it is restarted", (type) => {
    const restartPolicy = { attempts: 3 };
    expect(decide(dispatching, report("completed"), "robot-001", { type, restartPolicy })).toMatchObject({
      status: { state: "exited" },
    });
    expect(decide(dispatching, report("completed"), "robot-001", { type: "batch", restartPolicy })).toMatchObject({
      status: { state: "completed" },
    });
  });

  it("clears the last attempt's results with the first report of the next", () => {
    const decision = decide(
      { ...dispatching, exitCode: 3, logsStdout: "old", finishedAt: "f", startedAt: "s" },
      report("running"),
    );
    if (decision.kind !== "write") throw new Error("ignored");
    for (const field of ["exitCode", "logsStdout", "finishedAt", "startedAt"])
      expect(decision.status).not.toHaveProperty(field);
  });

  it("accepts an original agent's reports, which have neither attempt nor number", () => {
    const original = (state: StatusMessage["state"]): StatusMessage => {
      const { attempt: _, seq: __, ...rest } = report(state);
      return rest;
    };
    expect(decide(dispatching, original("running"))).toMatchObject({ kind: "write", status: { state: "running", seq: 1 } });
    // It repeats itself every 5 seconds.
    expect(decide({ ...dispatching, state: "running", seq: 1 }, original("running")).kind).toBe("ignore");
    expect(decide({ ...dispatching, state: "running", seq: 1 }, original("completed"))).toMatchObject({
      kind: "write",
      status: { seq: 2 },
    });
  });

  it("keeps the last 20 events", () => {
    const events = Array.from({ length: 20 }, (_, index) => ({ type: `e${index}` }));
    const decision = decide({ ...dispatching, events }, report("running"));
    expect(decision.kind === "write" && decision.status.events?.map((event) => event.type)).toEqual([
      ...events.slice(1).map((event) => event.type),
      "Started",
    ]);
  });

  it("postpones reports of a displaced attempt until one of the two is chosen, and records its removal", () => {
    const status = { ...dispatching, displaced: { robot: "robot-002", attempt: 1 } };
    const about = (state: StatusMessage["state"]) => report(state, { attempt: 1, robotName: "robot-002" });
    expect(decide(status, about("completed"), "robot-002")).toEqual({ kind: "postpone" });
    const stopped = { ...status, displaced: { ...status.displaced, stop: true } };
    expect(decide(stopped, about("completed"), "robot-002").kind).toBe("ignore");
    expect(decide(stopped, about("deleted"), "robot-002")).toMatchObject({ kind: "write", status: { removedAttempt: 1 } });
  });

  it("stores a failure as exited if the task may move, or if its lease expired", () => {
    const failed = (extra: Partial<StatusMessage>, spec: Partial<Task["spec"]>) =>
      decide(dispatching, report("failed", extra), "robot-001", spec);
    expect(failed({}, { reschedulePolicy: {} })).toMatchObject({ status: { state: "exited" } });
    expect(failed({ permanent: true }, { reschedulePolicy: {} })).toMatchObject({
      status: { state: "exited", permanent: true },
    });
    expect(failed({ leaseExpired: true }, {})).toMatchObject({ status: { state: "exited", reason: "LeaseExpired" } });
  });

  it("stores a restart by the robot without ending the attempt", () => {
    const restarting = report("running", { event: "Restarting", restartCount: 3, exitCode: 1 });
    expect(
      decide({ ...dispatching, state: "running" }, restarting, "robot-001", { type: "service", restartPolicy: {} }),
    ).toMatchObject({
      kind: "write",
      status: { state: "running", reason: "Restarting", restartCount: 3, exitCode: 1 },
    });
  });

  it("ends an attempt that its robot has removed although the task is not being deleted", () => {
    const running = { ...dispatching, state: "running", seq: 1 } as const;
    expect(decide(running, report("deleted", { seq: 2 }))).toMatchObject({
      ...{ kind: "write", status: { state: "failed", seq: 2, message: "deleted" } },
    });
    // A robot that lost the task counts its reports from 1.
    expect(decide({ ...running, seq: 5 }, report("deleted", { seq: 1 }))).toMatchObject({
      status: { state: "failed", seq: 6 },
    });
    expect(decide(running, report("deleted", { attempt: 9, seq: 2 })).kind).toBe("ignore");
    expect(decide({ ...running, state: "completed" }, report("deleted", { seq: 2 })).kind).toBe("ignore");
  });

  it("records that the robot has removed a task that is being deleted", () => {
    const decision = decideReport(
      taskOf({ ...dispatching, state: "completed", seq: 5 }, { bound: true, deleting: true }),
      "robot-001",
      report("deleted"),
      t0,
    );
    expect(decision).toMatchObject({
      kind: "write",
      status: { state: "completed", conditions: [{ type: "Released", status: "True" }] },
    });
  });

  it("converges on the robot's last report despite duplicates, delays and reordering", () => {
    const sent = [report("running", { seq: 1 }), report("running", { seq: 2 }), report("completed", { seq: 3, exitCode: 0 })];
    const last = sent[2] ?? report("completed");
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 12 }), (order) => {
        let task: DeepReadonly<Task> = taskOf(dispatching, { bound: true });
        const take = (message: StatusMessage): void => {
          const before = task.status;
          const decision = decideReport(task, "robot-001", message, t0);
          if (decision.kind !== "write") return;
          expect(decision.status.seq ?? 0).toBeGreaterThan(before?.seq ?? 0);
          expect(before?.state).not.toBe("completed");
          task = { ...task, status: { ...decision.status, attempt: 2 } };
        };
        for (const index of order) take(sent[index] ?? last);
        // The agent repeats what is not acknowledged.
        take(last);
        expect(task.status).toMatchObject({ state: "completed", seq: 3, exitCode: 0 });
      }),
    );
  });
});
