import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type LaunchEffect, type LaunchEvent, type LaunchState, newLaunch, stepLaunch } from "./launch-state.ts";

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
  it("lets workers in once the last line is read, in whatever order they come", () => {
    expect(after(2, line(1)).effects).toEqual([]);
    expect(after(2, line(1), line(0)).effects).toEqual([{ type: "listen" }]);
  });

  it("gives each worker its own line, as words", () => {
    expect(after(2, line(0), line(1), joined(1)).effects).toEqual([{ type: "run", worker: 1, words: ["orted", "1"] }]);
  });

  it("sends away a worker whose number has joined before, and one that there is not", () => {
    expect(types(after(1, line(0), joined(0), joined(0)).effects)).toEqual(["refuse"]);
    expect(types(after(1, line(0), joined(7)).effects)).toEqual(["refuse"]);
  });

  it("sends away a worker that comes when the launch is already ending", () => {
    const lost: LaunchEvent = { type: "lost", worker: 0, message: "gone" };
    expect(types(after(2, line(0), line(1), joined(0), lost, joined(1)).effects)).toEqual(["refuse"]);
  });

  it("ends with mpiexec's status", () => {
    for (const exitCode of [0, 1, 7, 139])
      expect(after(1, line(0), joined(0), ended(0), mpiexecEnded(exitCode)).effects).toEqual([{ type: "finish", exitCode }]);
  });

  it("does not take 0 from an mpiexec whose workers never came", () => {
    expect(after(1, line(0), mpiexecEnded(0)).effects.at(-1)).toEqual({ type: "finish", exitCode: 125 });
    expect(after(1, mpiexecEnded(0)).effects.at(-1)).toEqual({ type: "finish", exitCode: 125 });
  });

  it("answers 143 when asked to end, though mpiexec ends with 0", () => {
    expect(after(1, line(0), joined(0), { type: "terminate" }, mpiexecEnded(0)).effects).toEqual([
      { type: "finish", exitCode: 143 },
    ]);
  });

  it("kills mpiexec for a worker that is lost, and not for one that is lost after its part", () => {
    const lost: LaunchEvent = { type: "lost", worker: 0, message: "gone" };
    expect(types(after(1, line(0), joined(0), lost).effects)).toEqual(["say", "killMpiexec"]);
    expect(after(1, line(0), joined(0), ended(0), lost).effects).toEqual([]);
  });

  it("lets a worker be through early, and gives mpiexec a while after one that failed", () => {
    expect(types(after(2, line(0), line(1), joined(0), ended(0)).effects)).toEqual(["endAgent"]);
    expect(types(after(2, line(0), line(1), joined(0), ended(0, 3)).effects)).toEqual(["endAgent", "say", "armPartialExit"]);
    const stuck: LaunchEvent = { type: "partialExit", worker: 0 };
    const { effects } = after(2, line(0), line(1), joined(0), ended(0, 3), stuck, mpiexecEnded(137));
    expect(effects).toEqual([{ type: "finish", exitCode: 3 }]);
  });

  it("names the worker that failed first, not those that fail because of it", () => {
    const { effects } = after(2, line(0), line(1), joined(0), joined(1), ended(1, 143), ended(0, 1));
    expect(types(effects)).toEqual(["endAgent"]);
  });

  it("refuses a line that needs a shell, and a host that there is not", () => {
    for (const event of [line(0, "orted; id"), { type: "line", worker: undefined, host: "x", text: "orted" } as const])
      expect(types(after(1, event).effects)).toEqual(["say", "killMpiexec"]);
  });

  it("names the first reason only", () => {
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

  it("finishes at most once, and with 0 only where mpiexec ended with 0 and nothing went wrong", () => {
    const worker = fc.nat(2);
    const event: fc.Arbitrary<LaunchEvent> = fc.oneof(
      worker.map((each) => line(each)),
      worker.map(joined),
      fc.tuple(worker, fc.nat(2)).map(([each, code]) => ended(each, code)),
      worker.map((each): LaunchEvent => ({ type: "lost", worker: each, message: "" })),
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
            if (effect.exitCode === 0) expect([each, stopBefore]).toEqual([mpiexecEnded(0), undefined]);
          }
          state = next;
        }
        expect(finished).toBeLessThanOrEqual(1);
      }),
    );
  });
});
