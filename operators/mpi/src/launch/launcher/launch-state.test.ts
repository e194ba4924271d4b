import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LaunchEffect, LaunchEvent, LaunchState } from "./launch-events.ts";
import { explanationTimeoutMs, newLaunch, rankReportGraceMs, stepLaunch } from "./launch-state.ts";

function after(ranks: number, ...events: LaunchEvent[]): { state: LaunchState; effects: LaunchEffect[] } {
  let state = newLaunch(ranks);
  let effects: LaunchEffect[] = [];
  for (const event of events) {
    const [next, done] = stepLaunch(state, event);
    state = next;
    effects = [...done];
  }
  return { state, effects };
}

const line = (worker: number, text = `orted ${worker}`): LaunchEvent => ({ type: "line", worker, host: `w${worker}`, text });
const joined = (worker: number): LaunchEvent => ({ type: "joined", worker });
const ended = (worker: number, exitCode = 0): LaunchEvent => ({ type: "ended", worker, exitCode });
const mpiexecEnded = (exitCode: number): LaunchEvent => ({ type: "mpiexecEnded", exitCode });
const types = (effects: readonly LaunchEffect[]) => effects.map(({ type }) => type);

describe("a launch", () => {
  it("is ready once the last line has arrived, in any order", () => {
    expect(after(2, line(1)).effects).toEqual([]);
    expect(after(2, line(1), line(0)).effects).toEqual([{ type: "ready" }]);
  });

  it("accepts workers before mpiexec has written their lines, and sends them as soon as they arrive", () => {
    expect(after(2, joined(1)).effects).toEqual([]);
    expect(after(2, joined(1), joined(0)).effects).toEqual([{ type: "allJoined" }]);
    expect(after(2, joined(1), line(0)).effects).toEqual([]);
    expect(after(2, joined(1), line(0), line(1)).effects).toEqual([
      { type: "run", worker: 1, words: ["orted", "1"] },
      { type: "ready" },
    ]);
  });

  it("stops when a worker is lost that waits for its line", () => {
    const lost: LaunchEvent = { type: "lost", worker: 1, message: "gone" };
    expect(types(after(2, joined(1), lost).effects)).toEqual(["log", "killMpiexec"]);
  });

  it("stops at the start deadline when a worker has not joined or mpiexec has not written a line", () => {
    const startDeadline: LaunchEvent = { type: "startDeadline" };
    const messageAfter = (...events: LaunchEvent[]) => after(2, ...events, startDeadline).state.stop?.message;
    expect(messageAfter(line(0), line(1), joined(0))).toBe("1 of 2 workers joined in time; missing: 1");
    expect(messageAfter(joined(0), joined(1))).toBe("mpiexec has not written the launch lines of workers 0, 1 in time");
    expect(messageAfter(joined(0), line(0), joined(1))).toBe("mpiexec has not written the launch lines of workers 1 in time");
    expect(types(after(2, joined(0), joined(1), startDeadline).effects)).toEqual(["log", "killMpiexec"]);
    expect(after(2, line(0), line(1), joined(0), joined(1), startDeadline).effects).toEqual([]);
  });

  it("does not wait for the reports of workers that never ran", () => {
    expect(types(after(2, joined(0), joined(1), mpiexecEnded(1)).effects)).toEqual(["logMpiexecMessage", "finish"]);
  });

  it("sends each worker its own line, split into words", () => {
    expect(after(2, line(0), line(1), joined(1)).effects).toEqual([{ type: "run", worker: 1, words: ["orted", "1"] }]);
  });

  it("rejects a worker whose index has already joined and an unknown one", () => {
    expect(types(after(1, line(0), joined(0), joined(0)).effects)).toEqual(["reject"]);
    expect(types(after(1, line(0), joined(7)).effects)).toEqual(["reject"]);
  });

  it("rejects a worker once the launch has failed", () => {
    const lost: LaunchEvent = { type: "lost", worker: 0, message: "gone" };
    expect(types(after(2, line(0), line(1), joined(0), lost, joined(1)).effects)).toEqual(["reject"]);
  });

  it("ends with mpiexec's status", () => {
    expect(after(1, line(0), joined(0), ended(0), mpiexecEnded(0)).effects).toEqual([{ type: "finish", exitCode: 0 }]);
    for (const exitCode of [1, 7, 139]) {
      const failed = [line(0), joined(0), ended(0), mpiexecEnded(exitCode)];
      expect(after(1, ...failed).effects[0]).toEqual({ type: "armRankReports", delayMs: rankReportGraceMs, isFinal: true });
      expect(after(1, ...failed, { type: "rankReportsDue", isFinal: true }).effects).toEqual([
        { type: "logMpiexecMessage", exitCode, failedWorkers: [] },
        { type: "finish", exitCode },
      ]);
    }
  });

  const rankEnded = (worker: number, exitCode: number, at = 1): LaunchEvent => ({
    type: "rankEnded",
    worker,
    rank: worker,
    exitCode,
    at,
  });
  const running = [line(0), line(1), joined(0), joined(1)];

  it("reports the first failed rank with its own exit code, whatever mpiexec and the workers exit with", () => {
    const report = [
      { type: "logFailedRank", failed: { rank: 1, worker: 1, exitCode: 139, at: 1 } },
      { type: "finish", exitCode: 139 },
    ];
    const due = { type: "rankReportsDue", isFinal: false } as const;
    const failed = [...running, rankEnded(1, 139), rankEnded(0, 1, 2)];
    expect(after(2, ...failed, ended(0, 7), mpiexecEnded(255), due).effects).toEqual(report);
    // Reports may arrive in any order, and after mpiexec has ended.
    const late = [rankEnded(0, 1, 2), rankEnded(1, 139)];
    expect(after(2, ...running, ended(0, 7), mpiexecEnded(255), ...late, due).effects).toEqual(report);
  });

  it("prefers the failure of a worker to what mpiexec concludes from it", () => {
    const failed = [...running, ended(1, 143), mpiexecEnded(143), { type: "rankReportsDue", isFinal: false } as const];
    expect(after(2, ...failed).effects[0]).toEqual({ type: "logMpiexecMessage", exitCode: 143, failedWorkers: [143] });
  });

  it("waits, but not forever, for a report that explains the end of mpiexec", () => {
    const waiting = [...running, mpiexecEnded(9)];
    expect(after(2, ...waiting).effects).toEqual([{ type: "armRankReports", delayMs: explanationTimeoutMs, isFinal: true }]);
    expect(after(2, ...waiting, { type: "rankReportsDue", isFinal: false }).effects).toEqual([]);
    const report = [
      { type: "logMpiexecMessage", exitCode: 9, failedWorkers: [] },
      { type: "finish", exitCode: 9 },
    ];
    expect(after(2, ...waiting, { type: "rankReportsDue", isFinal: true }).effects).toEqual(report);
  });

  it("gives the other workers a moment after the first report, in which an earlier failure may arrive", () => {
    const waiting = [...running, mpiexecEnded(9), ended(0, 7)];
    const arm = { type: "armRankReports", delayMs: rankReportGraceMs, isFinal: false };
    expect(after(2, ...waiting).effects.at(-1)).toEqual(arm);
    expect(after(2, ...waiting, { type: "rankReportsDue", isFinal: false }).effects).toEqual([
      { type: "logMpiexecMessage", exitCode: 9, failedWorkers: [7] },
      { type: "finish", exitCode: 9 },
    ]);
  });

  it("ends immediately when every worker has ended and a rank explains the failure", () => {
    const all = [...running, rankEnded(1, 3), ended(0, 7), ended(1, 3), mpiexecEnded(255)];
    expect(after(2, ...all).effects.at(-1)).toEqual({ type: "finish", exitCode: 3 });
    const last = [...running, rankEnded(1, 3), ended(0, 7), mpiexecEnded(255), ended(1, 3)];
    expect(after(2, ...last).effects.at(-1)).toEqual({ type: "finish", exitCode: 3 });
  });

  it("fails if a rank has failed although mpiexec exits with 0", () => {
    const { effects } = after(2, ...running, rankEnded(1, 3), mpiexecEnded(0));
    expect(types(effects)).toEqual(["logFailedRank", "finish"]);
    expect(effects.at(-1)).toEqual({ type: "finish", exitCode: 3 });
  });

  it("stops an mpiexec that does not end after a rank has failed", () => {
    expect(after(2, ...running, rankEnded(1, 3)).effects).toEqual([{ type: "armPartialExit", worker: 1 }]);
    const stuck = [...running, rankEnded(1, 3), { type: "partialExit", worker: 1 } as const];
    expect(types(after(2, ...stuck).effects)).toEqual(["log", "killMpiexec"]);
    expect(after(2, ...stuck, mpiexecEnded(137)).effects.at(-1)).toEqual({ type: "finish", exitCode: 3 });
  });

  it("blames the daemon of a worker that was killed, not the ranks that end because of it", () => {
    const killed = [...running, rankEnded(1, 195), ended(1, 137)];
    expect(after(2, ...killed).effects).toContainEqual({
      type: "log",
      message: "the MPI daemon of worker 1 was killed (signal 9)",
    });
    const report = [
      { type: "logMpiexecMessage", exitCode: 205, failedWorkers: [137] },
      { type: "finish", exitCode: 205 },
    ];
    expect(after(2, ...killed, mpiexecEnded(205), { type: "rankReportsDue", isFinal: true }).effects).toEqual(report);
    const stuck = after(2, ...killed, { type: "partialExit", worker: 1 }).state.stop;
    expect(stuck).toMatchObject({
      reason: "WorkerFailed",
      message: "the MPI daemon of worker 1 was killed (signal 9), and mpiexec did not end within 3 s",
    });
  });

  it("reports that mpiexec was killed, regardless of later reports of its daemons", () => {
    const killed: LaunchEvent = { type: "mpiexecEnded", exitCode: 137, killedBy: "SIGKILL" };
    expect(after(2, ...running, ended(1, 7), killed).effects).toEqual([
      { type: "log", message: "mpiexec was killed by SIGKILL" },
      { type: "finish", exitCode: 137 },
    ]);
    expect(after(2, ...running, rankEnded(1, 3), killed).effects[0]).not.toHaveProperty("message");
  });

  it("ignores ranks that succeed", () => {
    expect(after(2, ...running, rankEnded(0, 0)).effects).toEqual([]);
  });

  it("fails if mpiexec exits with 0 before all workers have joined", () => {
    expect(after(1, line(0), mpiexecEnded(0)).effects.at(-1)).toEqual({ type: "finish", exitCode: 125 });
    expect(after(1, mpiexecEnded(0)).effects.at(-1)).toEqual({ type: "finish", exitCode: 125 });
  });

  it("returns 143 after SIGTERM even if mpiexec exits with 0", () => {
    expect(after(1, line(0), joined(0), { type: "terminate" }, mpiexecEnded(0)).effects).toEqual([
      { type: "finish", exitCode: 143 },
    ]);
  });

  it("kills mpiexec when a worker is lost, but not after the worker has ended", () => {
    const lost: LaunchEvent = { type: "lost", worker: 0, message: "gone" };
    expect(types(after(1, line(0), joined(0), lost).effects)).toEqual(["log", "killMpiexec"]);
    expect(after(1, line(0), joined(0), ended(0), lost).effects).toEqual([]);
  });

  it("accepts a worker that succeeds early and gives mpiexec time after one that failed", () => {
    expect(types(after(2, line(0), line(1), joined(0), ended(0)).effects)).toEqual(["endAgent"]);
    expect(types(after(2, line(0), line(1), joined(0), ended(0, 3)).effects)).toEqual(["endAgent", "log", "armPartialExit"]);
    const stuck: LaunchEvent = { type: "partialExit", worker: 0 };
    const { effects } = after(2, line(0), line(1), joined(0), ended(0, 3), stuck, mpiexecEnded(137));
    expect(effects).toEqual([{ type: "finish", exitCode: 3 }]);
  });

  it("names the worker that failed first, not those that fail because of it", () => {
    const { effects } = after(2, line(0), line(1), joined(0), joined(1), ended(1, 143), ended(0, 1));
    expect(types(effects)).toEqual(["endAgent"]);
  });

  it("rejects a line that requires a shell and an unknown host", () => {
    for (const event of [line(0, "orted; id"), { type: "line", worker: undefined, host: "x", text: "orted" } as const])
      expect(types(after(1, event).effects)).toEqual(["log", "killMpiexec"]);
  });

  it("reports the first reason only", () => {
    const { state } = after(
      2,
      line(0),
      line(1),
      joined(0),
      { type: "lost", worker: 0, message: "gone" },
      { type: "startDeadline" },
    );
    expect(state.stop?.reason).toBe("WorkerLost");
  });

  it("finishes at most once, and with 0 only if mpiexec exited with 0 and nothing failed", () => {
    const worker = fc.nat(2);
    const event: fc.Arbitrary<LaunchEvent> = fc.oneof(
      worker.map((each) => line(each)),
      worker.map(joined),
      fc.tuple(worker, fc.nat(2)).map(([each, code]) => ended(each, code)),
      worker.map((each): LaunchEvent => ({ type: "lost", worker: each, message: "" })),
      fc.tuple(worker, fc.nat(2)).map(([each, code]) => rankEnded(each, code)),
      fc.boolean().map((isFinal): LaunchEvent => ({ type: "rankReportsDue", isFinal })),
      fc.constantFrom<LaunchEvent>({ type: "startDeadline" }, { type: "terminate" }, { type: "partialExit", worker: 0 }),
      fc.nat(2).map(mpiexecEnded),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 20 }), (events) => {
        let state = newLaunch(2);
        let finished = 0;
        for (const each of events) {
          const stopBefore = state.stop;
          const [next, effects] = stepLaunch(state, each);
          for (const effect of effects) {
            if (effect.type !== "finish") continue;
            finished += 1;
            if (effect.exitCode === 0)
              expect([each, stopBefore, next.failedRank]).toEqual([mpiexecEnded(0), undefined, undefined]);
          }
          state = next;
        }
        expect(finished).toBeLessThanOrEqual(1);
      }),
    );
  });
});
