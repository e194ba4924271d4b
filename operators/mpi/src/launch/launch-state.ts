import { LaunchLineError, launchWords } from "./launch-words.ts";

/** Exit status of a launcher that ended for a reason of its own and not the program's, as `docker run` has it. */
export const launchFailedExitCode = 125;
/** Exit status after a deadline, as `timeout` has it. */
export const deadlineExitCode = 124;
/** Exit status after SIGTERM. */
export const terminatedExitCode = 143;
/** How long mpiexec may go on after a worker's part has failed. */
export const partialExitGraceMs = 10_000;

/** Why a launcher ended otherwise than with its program. */
export type StopReason = "BadLaunchLine" | "WorkerLost" | "WorkerFailed" | "StartDeadlineExceeded" | "Terminated";

/** What is known of one worker. */
interface WorkerState {
  readonly words?: readonly string[];
  readonly hasJoined: boolean;
  readonly exitCode?: number;
}

/** Where a launch stands. */
export interface LaunchState {
  readonly workers: readonly WorkerState[];
  /** Set once something has gone wrong: mpiexec is being ended. */
  readonly stop?: { readonly exitCode: number; readonly reason: StopReason; readonly message: string };
  readonly isOver: boolean;
}

/** What can happen to a launch. */
export type LaunchEvent =
  /** mpiexec wants this line to run on a worker. */
  | { readonly type: "line"; readonly worker: number | undefined; readonly host: string; readonly text: string }
  | { readonly type: "joined"; readonly worker: number }
  | { readonly type: "ended"; readonly worker: number; readonly exitCode: number; readonly message?: string }
  | { readonly type: "lost"; readonly worker: number; readonly message: string }
  | { readonly type: "startDeadline" }
  | { readonly type: "partialExit"; readonly worker: number }
  | { readonly type: "terminate" }
  | { readonly type: "mpiexecEnded"; readonly exitCode: number };

/** What is to be done, in this order. */
export type LaunchEffect =
  /** Every line is there: let workers in. */
  | { readonly type: "listen" }
  | { readonly type: "run"; readonly worker: number; readonly words: readonly string[] }
  | { readonly type: "refuse"; readonly worker: number; readonly message: string }
  /** Let the agent that mpiexec waits for end with this status. */
  | { readonly type: "endAgent"; readonly worker: number; readonly exitCode: number }
  | { readonly type: "armPartialExit"; readonly worker: number }
  | { readonly type: "allJoined" }
  | { readonly type: "killMpiexec" }
  | { readonly type: "say"; readonly message: string }
  /** The end: tell the workers and exit. */
  | { readonly type: "finish"; readonly exitCode: number };

/** A launch before anything has happened. */
export function newLaunch(ranks: number): LaunchState {
  return { workers: Array.from({ length: ranks }, () => ({ hasJoined: false })), isOver: false };
}

/** The next state of a launch, and what is to be done. */
export function stepLaunch(state: LaunchState, event: LaunchEvent): readonly [LaunchState, readonly LaunchEffect[]] {
  if (state.isOver) return [state, []];
  switch (event.type) {
    case "line":
      return onLine(state, event);
    case "joined":
      return onJoined(state, event.worker);
    case "ended":
      return onEnded(state, event);
    case "lost": {
      const worker = state.workers[event.worker];
      if (worker === undefined || worker.exitCode !== undefined) return [state, []];
      return stop(state, launchFailedExitCode, "WorkerLost", `worker ${event.worker} was lost: ${event.message}`);
    }
    case "startDeadline": {
      const missing = state.workers.flatMap((worker, index) => (worker.hasJoined ? [] : [index]));
      if (missing.length === 0) return [state, []];
      const count = `${state.workers.length - missing.length} of ${state.workers.length} workers joined in time`;
      return stop(state, deadlineExitCode, "StartDeadlineExceeded", `${count}; missing: ${numbers(missing)}`);
    }
    case "partialExit": {
      const exitCode = state.workers[event.worker]?.exitCode ?? 0;
      const message = `worker ${event.worker} ended with ${exitCode} and mpiexec did not within ${partialExitGraceMs / 1000} s`;
      return stop(state, exitCode === 0 ? launchFailedExitCode : exitCode, "WorkerFailed", message);
    }
    case "terminate":
      return stop(state, terminatedExitCode, "Terminated", "asked to end");
    case "mpiexecEnded":
      return onMpiexecEnded(state, event.exitCode);
  }
}

function onLine(
  state: LaunchState,
  event: Extract<LaunchEvent, { type: "line" }>,
): readonly [LaunchState, readonly LaunchEffect[]] {
  const worker = event.worker === undefined ? undefined : state.workers[event.worker];
  if (event.worker === undefined || worker === undefined)
    return stop(
      state,
      launchFailedExitCode,
      "BadLaunchLine",
      `mpiexec asks for a host that there is not: ${JSON.stringify(event.host)}`,
    );
  if (worker.words !== undefined) return [state, []];
  let words: readonly string[];
  try {
    words = launchWords(event.text);
  } catch (error) {
    if (!(error instanceof LaunchLineError)) throw error;
    return stop(state, launchFailedExitCode, "BadLaunchLine", error.message);
  }
  const next = withWorker(state, event.worker, { words });
  return [next, next.workers.every((each) => each.words !== undefined) ? [{ type: "listen" }] : []];
}

function onJoined(state: LaunchState, index: number): readonly [LaunchState, readonly LaunchEffect[]] {
  const worker = state.workers[index];
  const refuse = (message: string): readonly [LaunchState, readonly LaunchEffect[]] => [
    state,
    [{ type: "refuse", worker: index, message }],
  ];
  if (worker === undefined) return refuse(`there are workers 0 to ${state.workers.length - 1}`);
  // Its ranks are part of a run that is under way: a second worker of the number could not take its place.
  if (worker.hasJoined) return refuse("a worker of this number has joined before");
  if (worker.words === undefined || state.stop !== undefined) return refuse("there is nothing to run");
  const next = withWorker(state, index, { hasJoined: true });
  const effects: LaunchEffect[] = [{ type: "run", worker: index, words: worker.words }];
  if (next.workers.every((each) => each.hasJoined)) effects.push({ type: "allJoined" });
  return [next, effects];
}

function onEnded(
  state: LaunchState,
  event: Extract<LaunchEvent, { type: "ended" }>,
): readonly [LaunchState, readonly LaunchEffect[]] {
  const worker = state.workers[event.worker];
  if (worker === undefined || !worker.hasJoined || worker.exitCode !== undefined) return [state, []];
  const effects: LaunchEffect[] = [{ type: "endAgent", worker: event.worker, exitCode: event.exitCode }];
  // A worker whose ranks are through early is nothing unusual. One that failed is what mpiexec ends for; where it does not,
  // the other ranks would wait for ever.
  // The first to fail is the one to name: others fail because of it.
  const isFirst = !state.workers.some(({ exitCode }) => exitCode !== undefined && exitCode !== 0);
  if (event.exitCode !== 0 && state.stop === undefined && isFirst) {
    effects.push({
      type: "say",
      message: `worker ${event.worker} ended with ${event.exitCode}${event.message ? `: ${event.message}` : ""}`,
    });
    effects.push({ type: "armPartialExit", worker: event.worker });
  }
  return [withWorker(state, event.worker, { exitCode: event.exitCode }), effects];
}

function onMpiexecEnded(state: LaunchState, exitCode: number): readonly [LaunchState, readonly LaunchEffect[]] {
  const over = { ...state, isOver: true };
  if (state.stop !== undefined) return [over, [{ type: "finish", exitCode: state.stop.exitCode }]];
  // The program can only have run where every worker has its part.
  if (exitCode === 0 && !state.workers.every((worker) => worker.hasJoined)) {
    const message = "mpiexec ended before all workers had joined";
    return [
      over,
      [
        { type: "say", message },
        { type: "finish", exitCode: launchFailedExitCode },
      ],
    ];
  }
  return [over, [{ type: "finish", exitCode }]];
}

function stop(
  state: LaunchState,
  exitCode: number,
  reason: StopReason,
  message: string,
): readonly [LaunchState, readonly LaunchEffect[]] {
  if (state.stop !== undefined) return [state, []];
  return [
    { ...state, stop: { exitCode, reason, message } },
    [{ type: "say", message: `${reason}: ${message}` }, { type: "killMpiexec" }],
  ];
}

function withWorker(state: LaunchState, index: number, change: Partial<WorkerState>): LaunchState {
  return { ...state, workers: state.workers.map((worker, each) => (each === index ? { ...worker, ...change } : worker)) };
}

function numbers(indexes: readonly number[]): string {
  const shown = indexes.slice(0, 10).join(", ");
  return indexes.length > 10 ? `${shown} and ${indexes.length - 10} more` : shown;
}
