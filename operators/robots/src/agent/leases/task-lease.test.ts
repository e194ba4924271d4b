import { describe, expect, it } from "vitest";
import { step } from "../agent-state.ts";
import type { AgentEffect, AgentEvent, AgentState } from "../held-task.ts";
import { leaseDemand } from "./task-lease.ts";

const uid = "00000000-0000-4000-8000-000000000001";
const durationMs = 60_000;
const order = { command: ["true"] as const, env: {}, lease: { durationMs, graceMs: 5_000 } };
const empty: AgentState = { robotId: "r1", bootId: "boot-1", tasks: new Map() };

const create: AgentEvent = { kind: "create", uid, attempt: 1, order };
const answer = (requestedAtMs: number, bootMs: number, attempt = 1): AgentEvent => ({
  kind: "lease-answer",
  granted: [{ taskUid: uid, attempt }],
  refused: [],
  requestedAtMs,
  bootMs,
});
const check = (bootMs: number): AgentEvent => ({ kind: "lease-check", bootMs });
const started: AgentEvent = { kind: "started", uid, attempt: 1, startedAt: 1 };
const stopped: AgentEvent = {
  kind: "exited",
  uid,
  attempt: 1,
  exited: { kind: "exited", reason: "Stopped", message: "", exitCode: 143, finishedAt: 2 },
  logs: { stdout: "", stderr: "" },
};

function run(
  events: readonly AgentEvent[],
  start = empty,
): { readonly state: AgentState; readonly last: readonly AgentEffect[] } {
  let state = start;
  let last: readonly AgentEffect[] = [];
  for (const event of events) ({ state, effects: last } = step(state, event, 0));
  return { state, last };
}
const kinds = (events: readonly AgentEvent[]): readonly string[] => run(events).last.map(({ kind }) => kind);

describe("a leased task", () => {
  it("starts with its first grant, once", () => {
    expect(kinds([create])).toEqual(["save", "request-lease"]);
    expect(kinds([create, answer(1_000, 1_010)])).toEqual(["save", "start"]);
    expect(kinds([create, answer(1_000, 1_010), answer(21_000, 21_010)])).toEqual(["save"]);
  });

  it("does not start with the grant of another attempt, or one that took too long", () => {
    expect(kinds([create, answer(1_000, 1_010, 2)])).toEqual([]);
    expect(kinds([create, answer(1_000, 1_000 + durationMs)])).toEqual([]);
  });

  it("runs until shortly before the end of its lease, counted from the request", () => {
    const running = [create, answer(1_000, 30_000), started];
    expect(kinds([...running, check(54_999)])).toEqual([]);
    const { last } = run([...running, check(55_000)]);
    expect(last).toMatchObject([{ kind: "save" }, { kind: "stop", attempt: 1, graceMs: 5_000 }]);
    expect(kinds([...running, check(55_000), check(56_000)])).toEqual([]);
  });

  it("is killed without a grace period after a suspension that outlasted the lease", () => {
    expect(run([create, answer(1_000, 1_010), started, check(3_600_000)]).last).toMatchObject([
      {},
      { kind: "stop", graceMs: 0 },
    ]);
  });

  it("reports that its lease expired, and another end as it was", () => {
    const fenced = [create, answer(1_000, 1_010), started, check(55_000)];
    expect(run([...fenced, stopped]).last).toMatchObject([
      {},
      { kind: "publish", report: { state: "failed", leaseExpired: true, exitCode: 143 } },
    ]);
    const completed: AgentEvent = {
      ...stopped,
      exited: { kind: "exited", reason: "Completed", message: "", exitCode: 0, finishedAt: 2 },
    } as AgentEvent;
    const report = run([...fenced, completed]).last[1];
    expect(report).toMatchObject({ report: { state: "completed" } });
    expect(report).not.toHaveProperty("report.leaseExpired");
  });

  it("is removed if the server refuses the lease", () => {
    const refused: AgentEvent = {
      kind: "lease-answer",
      granted: [],
      refused: [{ taskUid: uid, attempt: 1 }],
      requestedAtMs: 1,
      bootMs: 2,
    };
    expect(kinds([create, answer(1_000, 1_010), started, refused])).toEqual(["save", "discard", "clear"]);
  });

  it("has no lease after a reboot", () => {
    const { state } = run([create, answer(1_000, 1_010), started]);
    expect(run([check(2_000)], { ...state, bootId: "boot-2" }).last).toMatchObject([{}, { kind: "stop" }]);
  });

  it("is renewed three times in its duration, and requested more often until it starts", () => {
    expect(leaseDemand(empty)).toEqual({ tasks: [], intervalMs: Number.POSITIVE_INFINITY });
    const tasks = [{ taskUid: uid, attempt: 1 }];
    expect(leaseDemand(run([create]).state)).toEqual({ tasks, intervalMs: 2_000 });
    expect(leaseDemand(run([create, answer(1_000, 1_010)]).state)).toEqual({ tasks, intervalMs: 20_000 });
    expect(leaseDemand(run([create, answer(1_000, 1_010), started, stopped]).state).tasks).toEqual([]);
  });
});

describe("an adopted attempt", () => {
  const plain = { command: ["true"] as const, env: {} };
  const first: AgentEvent = { kind: "create", uid, attempt: 1, order: plain };
  const adopt: AgentEvent = { kind: "create", uid, attempt: 3, order: plain, adopts: 1 };

  it("continues its program under the new number", () => {
    const { state, last } = run([first, started, adopt]);
    expect(last).toMatchObject([{ kind: "save" }, { kind: "publish", report: { state: "running", attempt: 3, seq: 1 } }]);
    expect(step(state, stopped, 0).effects).toMatchObject([{}, { report: { state: "failed", attempt: 3, seq: 2 } }]);
  });

  it("reports its end under the new number if it has ended in the meantime", () => {
    expect(run([first, started, stopped, adopt]).last).toMatchObject([
      {},
      { kind: "publish", report: { state: "failed", exitCode: 143, attempt: 3 } },
    ]);
  });

  it("starts anew if the robot no longer has the program", () => {
    expect(kinds([adopt])).toEqual(["save", "start"]);
  });
});
