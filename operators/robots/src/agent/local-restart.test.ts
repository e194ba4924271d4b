import { expect, it } from "vitest";
import type { Exited } from "@keelson/execution";
import { step } from "./agent-state.ts";
import type { AgentEffect, AgentEvent, AgentState } from "./held-task.ts";
import { nextRestartMs } from "./local-restart.ts";

const uid = "00000000-0000-4000-8000-000000000001";
const policy = { attempts: 2, interval: "30m", delay: "15s", mode: "fail" as const };
const order = { command: ["true"] as const, env: {}, restart: { policy, count: 4 } };
const empty: AgentState = { robotId: "r1", bootId: "boot-1", tasks: new Map() };

const create: AgentEvent = { kind: "create", uid, attempt: 1, order };
const started = (run: number): AgentEvent => ({ kind: "started", uid, attempt: 1, run, startedAt: 1 });
const exited = (run: number, reason: Exited["reason"] = "Error", exitCode = 3): AgentEvent => ({
  kind: "exited",
  uid,
  attempt: 1,
  run,
  exited: { kind: "exited", reason, message: `exit code ${exitCode}`, exitCode, finishedAt: 2 },
  logs: { stdout: "", stderr: "" },
});
const check: AgentEvent = { kind: "restart-check" };

/** Each event with its time. */
function run(events: readonly (readonly [AgentEvent, number])[], start = empty) {
  let state = start;
  let last: readonly AgentEffect[] = [];
  for (const [event, now] of events) ({ state, effects: last } = step(state, event, now));
  return { state, last };
}

it("a service that ends is restarted by the robot after the delay of its policy", () => {
  const ended = [
    [create, 0],
    [started(0), 0],
    [exited(0), 1_000],
  ] as const;
  const { state, last } = run(ended);
  expect(last).toMatchObject([
    { kind: "save", task: { phase: "waiting" } },
    {
      kind: "publish",
      report: {
        state: "running",
        event: "Restarting",
        restartCount: 5,
        exitCode: 3,
        message: expect.stringContaining("1970-01-01T00:00:16.000Z"),
      },
    },
  ]);
  expect(nextRestartMs(state, 1_000)).toBe(15_000);
  expect(step(state, check, 15_999).effects).toEqual([]);
  expect(step(state, check, 16_000).effects).toMatchObject([
    { kind: "save", task: { phase: "accepted", run: 1 } },
    { kind: "discard", attempt: 1 },
    { kind: "start", attempt: 1, run: 1 },
  ]);
});

it("a service is restarted when it succeeds, too", () => {
  expect(
    run([
      [create, 0],
      [started(0), 0],
      [exited(0, "Completed", 0), 0],
    ]).last[1],
  ).toMatchObject({ report: { event: "Restarting" } });
});

it("fails once its restarts are used up, and the server does not restart it again", () => {
  const { last } = run([
    [create, 0],
    [exited(0), 0],
    [check, 15_000],
    [exited(1), 15_000],
    [check, 30_000],
    [exited(2, "Completed", 0), 30_000],
  ]);
  expect(last[1]).toMatchObject({
    report: {
      state: "failed",
      permanent: true,
      message: "Task completed (2 of 2 restarts within 30m are used up)",
    },
  });
});

it("ignores the end of an earlier program of the same attempt", () => {
  const { state } = run([
    [create, 0],
    [started(0), 0],
    [exited(0), 0],
    [check, 15_000],
    [started(1), 15_000],
  ]);
  expect(step(state, exited(0), 16_000).effects).toEqual([]);
  expect(step(state, exited(1), 16_000).effects).toHaveLength(2);
});

it("is not restarted while it is being deleted, and its last program is removed", () => {
  const { state, last } = run([
    [create, 0],
    [exited(0), 0],
    [check, 15_000],
    [exited(1), 15_000],
    [{ kind: "delete", uid, attempt: 1 }, 16_000],
  ]);
  expect(last).toMatchObject([{ kind: "save" }, { kind: "discard", attempt: 1, run: 1 }, { kind: "clear" }]);
  expect(step(state, check, 99_000).effects).toEqual([]);
});

it("a clock that was set back does not lengthen the delay", () => {
  const { state } = run([
    [create, 3_600_000],
    [exited(0), 3_600_000],
  ]);
  expect(nextRestartMs(state, 0)).toBe(0);
  expect(step(state, check, 0).effects).toHaveLength(3);
});

it("a leased service starts again only with a new lease", () => {
  const leased: AgentEvent = { ...create, order: { ...order, lease: { durationMs: 60_000, graceMs: 5_000 } } } as AgentEvent;
  const grant = (ms: number): AgentEvent => ({
    kind: "lease-answer",
    granted: [{ taskUid: uid, attempt: 1 }],
    refused: [],
    requestedAtMs: ms,
    bootMs: ms,
  });
  const waiting = [
    [leased, 0],
    [grant(0), 0],
    [started(0), 0],
    [exited(0), 0],
    [check, 15_000],
  ] as const;
  expect(run(waiting).last).toMatchObject([{ kind: "save" }, { kind: "discard" }, { kind: "request-lease" }]);
  expect(run([...waiting, [grant(16_000), 16_000]]).last).toMatchObject([
    { kind: "save" },
    { kind: "start", attempt: 1, run: 1 },
  ]);
});
