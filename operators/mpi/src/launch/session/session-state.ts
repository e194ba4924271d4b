import { deadlineExitCode, launchFailedExitCode, terminatedExitCode } from "../exit-codes.ts";

/*
 * A session: the launcher runs a command of the user, which may start mpiexec or ssh any number of times. Every call of the agent is
 * passed to a worker, as ssh would.
 */

/** A command for a worker. */
interface Call {
  readonly worker: number;
  readonly text: string;
  readonly isSent: boolean;
}

/** State of a session. */
export interface SessionState {
  /** Whether each worker has joined. */
  readonly joined: readonly boolean[];
  /** Commands that have not ended, by the id of their agent. */
  readonly calls: ReadonlyMap<number, Call>;
  readonly hasStarted: boolean;
  /** Exit status of a session that was stopped. */
  readonly stoppedWith?: number;
  readonly isOver: boolean;
}

/** Input of {@link stepSession}. */
export type SessionEvent =
  /** An agent wants this text to run in a shell of a host. */
  | {
      readonly type: "called";
      readonly call: number;
      readonly worker: number | undefined;
      readonly host: string;
      readonly text: string;
    }
  | { readonly type: "joined"; readonly worker: number }
  | { readonly type: "ended"; readonly call: number; readonly worker: number; readonly exitCode: number }
  | { readonly type: "lost"; readonly worker: number; readonly message: string }
  | { readonly type: "startDeadline" }
  | { readonly type: "terminate" }
  | { readonly type: "commandEnded"; readonly exitCode: number };

/** Output of {@link stepSession}, in order. */
export type SessionEffect =
  | { readonly type: "startCommand" }
  | { readonly type: "run"; readonly worker: number; readonly call: number; readonly text: string }
  | { readonly type: "reject"; readonly worker: number; readonly message: string }
  /** End the agent of a call with this status. */
  | { readonly type: "endCall"; readonly call: number; readonly exitCode: number }
  | { readonly type: "killCommand" }
  | { readonly type: "log"; readonly message: string }
  /** End the workers and exit. */
  | { readonly type: "finish"; readonly exitCode: number };

type Step = readonly [SessionState, readonly SessionEffect[]];

/** Starts a session. Its command starts immediately, unless it waits for all workers. */
export function newSession(workers: number, waitsForWorkers: boolean): Step {
  const hasStarted = !waitsForWorkers || workers === 0;
  const state: SessionState = { joined: Array<boolean>(workers).fill(false), calls: new Map(), hasStarted, isOver: false };
  return [state, hasStarted ? [{ type: "startCommand" }] : []];
}

/** The next state of a session and its effects. */
export function stepSession(state: SessionState, event: SessionEvent): Step {
  if (state.isOver) return [state, []];
  switch (event.type) {
    case "called":
      return onCalled(state, event);
    case "joined":
      return onJoined(state, event.worker);
    case "ended":
      return onEnded(state, event);
    case "lost":
      return stop(state, launchFailedExitCode, `WorkerLost: worker ${event.worker} was lost: ${event.message}`);
    case "startDeadline": {
      const missing = state.joined.flatMap((hasJoined, worker) => (hasJoined ? [] : [worker]));
      if (missing.length === 0) return [state, []];
      const count = `${state.joined.length - missing.length} of ${state.joined.length} workers joined in time`;
      return stop(state, deadlineExitCode, `StartDeadlineExceeded: ${count}; missing: ${missing.slice(0, 10).join(", ")}`);
    }
    case "terminate":
      return stop(state, terminatedExitCode, "Terminated: received SIGTERM");
    case "commandEnded":
      return [{ ...state, isOver: true }, [{ type: "finish", exitCode: state.stoppedWith ?? event.exitCode }]];
  }
}

function onCalled(state: SessionState, { call, worker, host, text }: Extract<SessionEvent, { type: "called" }>): Step {
  if (worker === undefined || state.joined[worker] === undefined)
    return [
      state,
      [
        { type: "log", message: `unknown host ${JSON.stringify(host)}` },
        { type: "endCall", call, exitCode: 255 },
      ],
    ];
  const isSent = state.joined[worker];
  const calls = new Map(state.calls).set(call, { worker, text, isSent });
  return [{ ...state, calls }, isSent ? [{ type: "run", worker, call, text }] : []];
}

/** Exit status of a program that does not exist. */
const programNotFoundExitCode = 127;
/** The daemons of mpiexec. */
const daemon = /\b(?:hydra_pmi_proxy|orted|prted)\b/;

function onEnded(state: SessionState, { call, worker, exitCode }: Extract<SessionEvent, { type: "ended" }>): Step {
  const ended = state.calls.get(call);
  if (ended?.worker !== worker) return [state, []];
  const calls = new Map(state.calls);
  calls.delete(call);
  const next = { ...state, calls };
  const endCall: SessionEffect = { type: "endCall", call, exitCode };
  const [name] = daemon.exec(ended.text) ?? [];
  if (exitCode !== programNotFoundExitCode || name === undefined) return [next, [endCall]];
  // MPICH's mpiexec would wait forever.
  const [stopped, effects] = stop(
    next,
    exitCode,
    `worker ${worker} does not have ${name}, which the launcher's mpiexec starts there`,
  );
  return [stopped, [endCall, ...effects]];
}

function onJoined(state: SessionState, worker: number): Step {
  const reject = (message: string): Step => [state, [{ type: "reject", worker, message }]];
  if (state.joined[worker] === undefined) return reject(`the index must be 0 to ${state.joined.length - 1}`);
  if (state.joined[worker]) return reject("a worker with this index has already joined");
  if (state.stoppedWith !== undefined) return reject("the session is ending");
  const joined = state.joined.with(worker, true);
  const waiting = [...state.calls].filter(([, call]) => call.worker === worker);
  const calls = new Map(state.calls);
  for (const [id, call] of waiting) calls.set(id, { ...call, isSent: true });
  const starts = !state.hasStarted && joined.every(Boolean);
  return [
    { ...state, joined, calls, hasStarted: state.hasStarted || starts },
    [
      ...waiting.map(([call, { text }]) => ({ type: "run" as const, worker, call, text })),
      ...(starts ? [{ type: "startCommand" as const }] : []),
    ],
  ];
}

function stop(state: SessionState, exitCode: number, message: string): Step {
  if (state.stoppedWith !== undefined) return [state, []];
  const log: SessionEffect = { type: "log", message };
  // Without a command, nothing reports its end.
  if (!state.hasStarted) return [{ ...state, isOver: true }, [log, { type: "finish", exitCode }]];
  return [{ ...state, stoppedWith: exitCode }, [log, { type: "killCommand" }]];
}
