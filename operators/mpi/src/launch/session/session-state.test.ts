import { describe, expect, it } from "vitest";
import { newSession, type SessionEffect, type SessionEvent, type SessionState, stepSession } from "./session-state.ts";

/** Applies events to a session of `workers` workers, and returns the last state and the effects of the last event. */
function after(
  workers: number,
  events: readonly SessionEvent[],
  waits = false,
): readonly [SessionState, readonly SessionEffect[]] {
  return events.reduce(
    ([state]: ReturnType<typeof newSession>, event) => stepSession(state, event),
    newSession(workers, waits),
  );
}
const called = (call: number, worker: number | undefined): SessionEvent => ({
  ...{ type: "called", call, worker, host: `w${worker}`, text: `orted ${call}` },
});
const joined = (worker: number): SessionEvent => ({ type: "joined", worker });

describe("a session", () => {
  it("starts its command immediately, and passes calls to workers that have joined", () => {
    expect(newSession(2, false)[1]).toEqual([{ type: "startCommand" }]);
    expect(after(2, [joined(1), called(7, 1)])[1]).toEqual([{ type: "run", worker: 1, call: 7, text: "orted 7" }]);
  });

  it("keeps calls for workers that join later", () => {
    expect(after(2, [called(7, 0), called(8, 0)])[1]).toEqual([]);
    expect(after(2, [called(7, 0), called(8, 0), joined(0)])[1]).toMatchObject([
      { type: "run", worker: 0, call: 7 },
      { type: "run", worker: 0, call: 8 },
    ]);
  });

  it("starts its command when all workers have joined, if it waits for them", () => {
    expect(newSession(2, true)[1]).toEqual([]);
    expect(after(2, [joined(0)], true)[1]).toEqual([]);
    expect(after(2, [joined(0), joined(1)], true)[1]).toEqual([{ type: "startCommand" }]);
    expect(newSession(0, true)[1]).toEqual([{ type: "startCommand" }]);
  });

  it("ends the agent of a call with the status of its command, and runs any number of calls", () => {
    const ended: SessionEvent = { type: "ended", call: 7, worker: 0, exitCode: 4 };
    const [state, effects] = after(1, [joined(0), called(7, 0), ended]);
    expect(effects).toEqual([{ type: "endCall", call: 7, exitCode: 4 }]);
    expect(stepSession(state, ended)[1]).toEqual([]);
    expect(stepSession(state, called(8, 0))[1]).toMatchObject([{ type: "run", call: 8 }]);
  });

  it("stops a command whose mpiexec starts a daemon that a worker does not have, and would wait for it", () => {
    const ended: SessionEvent = { type: "ended", call: 7, worker: 0, exitCode: 127 };
    const of = (text: string) => after(1, [joined(0), { ...called(7, 0), text } as SessionEvent, ended])[1];
    expect(of('"/opt/mpich/bin/hydra_pmi_proxy" --control-port h:1')).toEqual([
      { type: "endCall", call: 7, exitCode: 127 },
      { type: "log", message: "worker 0 does not have hydra_pmi_proxy, which the launcher's mpiexec starts there" },
      { type: "killCommand" },
    ]);
    expect(of("prepare --all")).toEqual([{ type: "endCall", call: 7, exitCode: 127 }]);
  });

  it("ignores the end of another worker's call", () => {
    expect(after(2, [joined(0), joined(1), called(7, 0), { type: "ended", call: 7, worker: 1, exitCode: 0 }])[1]).toEqual([]);
  });

  it("fails the call of an unknown host", () => {
    expect(after(1, [called(7, undefined)])[1]).toMatchObject([{ type: "log" }, { type: "endCall", call: 7, exitCode: 255 }]);
  });

  it("exits with the command's status", () => {
    expect(after(1, [joined(0), { type: "commandEnded", exitCode: 3 }])[1]).toEqual([{ type: "finish", exitCode: 3 }]);
  });

  it.each<[SessionEvent, number]>([
    [{ type: "lost", worker: 0, message: "read ECONNRESET" }, 125],
    [{ type: "startDeadline" }, 124],
    [{ type: "terminate" }, 143],
  ])("stops the command after %j and exits with %i", (event, exitCode) => {
    const [state, effects] = after(2, [joined(0), event]);
    expect(effects).toMatchObject([{ type: "log" }, { type: "killCommand" }]);
    expect(stepSession(state, { type: "commandEnded", exitCode: 137 })[1]).toEqual([{ type: "finish", exitCode }]);
    const waiting = after(2, [joined(0), event], true);
    expect(waiting[1]).toMatchObject([{ type: "log" }, { type: "finish", exitCode }]);
  });

  it("rejects a second worker with the same index", () => {
    expect(after(1, [joined(0), joined(0)])[1]).toMatchObject([{ type: "reject" }]);
    expect(after(1, [joined(1)])[1]).toMatchObject([{ type: "reject" }]);
  });
});
