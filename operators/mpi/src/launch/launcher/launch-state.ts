import { deadlineExitCode, launchFailedExitCode, terminatedExitCode } from "../exit-codes.ts";
import { MpiError } from "../mpi-error.ts";
import type { FailedRank, LaunchEffect, LaunchEvent, LaunchState, StopReason, WorkerState } from "./launch-events.ts";
import { launchWords } from "../mpiexec/launch-line.ts";

/** Time that mpiexec has to end after a worker or a rank has failed. */
export const partialExitGraceMs = 3000;
/** Time that other workers have to report an earlier failure after the first report. */
export const rankReportGraceMs = 300;
/** Maximum time to wait for a report that explains why mpiexec failed. */
export const explanationTimeoutMs = 3000;

/** Initial state of a launch. */
export function newLaunch(workers: number): LaunchState {
  return { workers: Array.from({ length: workers }, () => ({ hasJoined: false })), isOver: false };
}

/** The next state of a launch and its effects. */
export function stepLaunch(state: LaunchState, event: LaunchEvent): readonly [LaunchState, readonly LaunchEffect[]] {
  if (state.isOver) return [state, []];
  switch (event.type) {
    case "line":
      return onLine(state, event);
    case "joined":
      return onJoined(state, event.worker);
    case "ended":
      return onEnded(state, event);
    case "rankEnded":
      return onRankEnded(state, event);
    case "rankReportsDue":
      return onRankReportsDue(state, event.isFinal);
    case "lost": {
      const worker = state.workers[event.worker];
      if (worker === undefined || worker.exitCode !== undefined) return [state, []];
      return stop(state, launchFailedExitCode, "WorkerLost", `worker ${event.worker} was lost: ${event.message}`);
    }
    case "startDeadline": {
      const message = startTimeoutMessage(state);
      return message === undefined ? [state, []] : stop(state, deadlineExitCode, "StartDeadlineExceeded", message);
    }
    case "partialExit": {
      const failedRank = failedRankOf(state);
      if (failedRank !== undefined) {
        const { rank, exitCode } = failedRank;
        const reason = `rank ${rank} ended, and mpiexec did not within ${partialExitGraceMs / 1000} s`;
        return stop(state, exitCode, "RankFailed", reason);
      }
      const exitCode = state.workers[event.worker]?.exitCode ?? 0;
      const failure = workerFailure({ type: "ended", worker: event.worker, exitCode });
      const message = `${failure}, and mpiexec did not end within ${partialExitGraceMs / 1000} s`;
      return stop(state, exitCode === 0 ? launchFailedExitCode : exitCode, "WorkerFailed", message);
    }
    case "terminate":
      return stop(state, terminatedExitCode, "Terminated", "received SIGTERM");
    case "mpiexecEnded":
      return state.mpiexecExitCode === undefined ? onMpiexecEnded(state, event) : [state, []];
  }
}

/** Why the program does not run yet; undefined if every worker has joined and has its line. */
function startTimeoutMessage({ workers }: LaunchState): string | undefined {
  const indexesOf = (isLate: (worker: WorkerState) => boolean): readonly number[] =>
    workers.flatMap((worker, index) => (isLate(worker) ? [index] : []));
  const missing = indexesOf(({ hasJoined }) => !hasJoined);
  if (missing.length > 0)
    return `${workers.length - missing.length} of ${workers.length} workers joined in time; missing: ${numbers(missing)}`;
  // Workers join without waiting for mpiexec, which may hang before it has written their lines.
  const unwritten = indexesOf(({ words }) => words === undefined);
  if (unwritten.length === 0) return undefined;
  return `mpiexec has not written the launch lines of workers ${numbers(unwritten)} in time`;
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
      `mpiexec requested an unknown host: ${JSON.stringify(event.host)}`,
    );
  if (worker.words !== undefined) return [state, []];
  let words: readonly string[];
  try {
    words = launchWords(event.text);
  } catch (error) {
    if (!(error instanceof MpiError)) throw error;
    return stop(state, launchFailedExitCode, "BadLaunchLine", error.message);
  }
  const next = withWorker(state, event.worker, { words });
  const effects: LaunchEffect[] = worker.hasJoined ? [{ type: "run", worker: event.worker, words }] : [];
  if (next.workers.every((each) => each.words !== undefined)) effects.push({ type: "ready" });
  return [next, effects];
}

function onJoined(state: LaunchState, index: number): readonly [LaunchState, readonly LaunchEffect[]] {
  const worker = state.workers[index];
  const reject = (message: string): readonly [LaunchState, readonly LaunchEffect[]] => [
    state,
    [{ type: "reject", worker: index, message }],
  ];
  if (worker === undefined) return reject(`the index must be 0 to ${state.workers.length - 1}`);
  // Its ranks are part of the run. A second worker with this index could not replace it.
  if (worker.hasJoined) return reject("a worker with this index has already joined");
  if (state.stop !== undefined || state.mpiexecExitCode !== undefined) return reject("the launch has failed");
  const next = withWorker(state, index, { hasJoined: true });
  // A worker that joins before mpiexec has written its line gets it later.
  const { words } = worker;
  const effects: LaunchEffect[] = words === undefined ? [] : [{ type: "run", worker: index, words }];
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
  // A worker may succeed early. After a failed one, mpiexec ends; if it does not, the other ranks would wait forever.
  // Only the first failure is reported, because it causes the others.
  const isFirst = !state.workers.some(({ exitCode }) => exitCode !== undefined && exitCode !== 0);
  if (event.exitCode !== 0 && state.stop === undefined && isFirst) {
    effects.push({ type: "log", message: workerFailure(event) });
    effects.push({ type: "armPartialExit", worker: event.worker });
  }
  const next = withWorker(state, event.worker, { exitCode: event.exitCode });
  const [last, reports] = onReport(next);
  return [last, [...effects, ...reports]];
}

function workerFailure({ worker, exitCode, message }: Extract<LaunchEvent, { type: "ended" }>): string {
  if (message !== undefined) return `worker ${worker} exited with ${exitCode}: ${message}`;
  return wasKilled(exitCode)
    ? `the MPI daemon of worker ${worker} was killed (signal ${exitCode - 128})`
    : `worker ${worker} exited with ${exitCode}`;
}

function onRankEnded(
  state: LaunchState,
  { worker, rank, exitCode, at }: Extract<LaunchEvent, { type: "rankEnded" }>,
): readonly [LaunchState, readonly LaunchEffect[]] {
  const earlier = state.failedRank;
  if (exitCode === 0 || state.stop !== undefined || (earlier !== undefined && earlier.at <= at)) return [state, []];
  const next = { ...state, failedRank: { rank, exitCode, at, worker } };
  if (earlier !== undefined) return [next, []];
  return state.mpiexecExitCode === undefined ? [next, [{ type: "armPartialExit", worker }]] : onReport(next);
}

/** After mpiexec has failed: concludes if every worker has reported, or allows some time for an earlier failure or a rank that outlived its daemon. */
function onReport(state: LaunchState): readonly [LaunchState, readonly LaunchEffect[]] {
  if (state.mpiexecExitCode === undefined) return [state, []];
  const areOver = !state.workers.some(isRunning);
  if (areOver && failedRankOf(state) !== undefined) return onRankReportsDue(state, true);
  if (!areOver && !isExplained(state)) return [state, []];
  return [state, [{ type: "armRankReports", delayMs: rankReportGraceMs, isFinal: areOver }]];
}

/** Ends a launch whose mpiexec has failed, with the status of the rank that failed first: MPICH's mpiexec reports another one. */
function onRankReportsDue(state: LaunchState, isFinal: boolean): readonly [LaunchState, readonly LaunchEffect[]] {
  const { mpiexecExitCode } = state;
  const failedRank = failedRankOf(state);
  if (mpiexecExitCode === undefined || (!isFinal && !isExplained(state))) return [state, []];
  const report: LaunchEffect =
    failedRank === undefined ? mpiexecMessageOf(state, mpiexecExitCode) : { type: "logFailedRank", failed: failedRank };
  return [{ ...state, isOver: true }, [report, { type: "finish", exitCode: failedRank?.exitCode ?? mpiexecExitCode }]];
}

/** The rank that failed first, unless it failed because the daemon of its worker was killed. */
function failedRankOf({ failedRank, workers }: LaunchState): FailedRank | undefined {
  return failedRank === undefined || wasKilled(workers[failedRank.worker]?.exitCode ?? 0) ? undefined : failedRank;
}

/** Whether this is the exit status of a program that was ended by a signal. Daemons exit with small numbers. */
function wasKilled(exitCode: number): boolean {
  return exitCode > 128 && exitCode <= 192;
}

/** Whether a rank or a worker is known to have failed. */
function isExplained({ failedRank, workers }: LaunchState): boolean {
  return failedRank !== undefined || workers.some(({ exitCode = 0 }) => exitCode !== 0);
}

/** Whether a worker runs its daemon, which may still report how a rank ended. */
function isRunning(worker: WorkerState): boolean {
  return wasStarted(worker) && worker.exitCode === undefined;
}

/** Whether a worker has received its line. */
function wasStarted({ hasJoined, words }: WorkerState): boolean {
  return hasJoined && words !== undefined;
}

function onMpiexecEnded(
  state: LaunchState,
  { exitCode, killedBy }: Extract<LaunchEvent, { type: "mpiexecEnded" }>,
): readonly [LaunchState, readonly LaunchEffect[]] {
  const over = { ...state, isOver: true };
  const { stop: stopped } = state;
  const failedRank = failedRankOf(state);
  const report: readonly LaunchEffect[] = failedRank === undefined ? [] : [{ type: "logFailedRank", failed: failedRank }];
  if (stopped !== undefined) return [over, [...report, { type: "finish", exitCode: stopped.exitCode }]];
  // Daemons and ranks that end now do so because mpiexec was killed, for example by the OOM killer.
  if (killedBy === "SIGKILL" && failedRank === undefined) {
    const log: LaunchEffect = { type: "log", message: `mpiexec was killed by ${killedBy}` };
    return [over, [log, { type: "finish", exitCode }]];
  }
  // Reports of ranks may arrive after mpiexec has ended.
  if (exitCode !== 0 && state.workers.some(wasStarted)) {
    const [next, effects] = onReport({ ...state, mpiexecExitCode: exitCode });
    const limit: LaunchEffect = { type: "armRankReports", delayMs: explanationTimeoutMs, isFinal: true };
    return [next, next.workers.some(isRunning) ? [...effects, limit] : effects];
  }
  // The program can only have run if every worker has joined.
  if (exitCode === 0 && !state.workers.every(wasStarted)) {
    const message = "mpiexec exited before all workers had joined";
    return [
      over,
      [
        { type: "log", message },
        { type: "finish", exitCode: launchFailedExitCode },
      ],
    ];
  }
  // A program can make mpiexec succeed, for example with parameters of Open MPI in its environment.
  if (exitCode === 0 && failedRank !== undefined) return [over, [...report, { type: "finish", exitCode: failedRank.exitCode }]];
  return [over, [...(exitCode === 0 ? [] : [mpiexecMessageOf(state, exitCode)]), { type: "finish", exitCode }]];
}

function mpiexecMessageOf({ workers }: LaunchState, exitCode: number): LaunchEffect {
  const failedWorkers = workers.flatMap((worker) => ((worker.exitCode ?? 0) === 0 ? [] : [worker.exitCode ?? 0]));
  return { type: "logMpiexecMessage", exitCode, failedWorkers };
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
    [{ type: "log", message: `${reason}: ${message}` }, { type: "killMpiexec" }],
  ];
}

function withWorker(state: LaunchState, index: number, change: Partial<WorkerState>): LaunchState {
  return { ...state, workers: state.workers.map((worker, each) => (each === index ? { ...worker, ...change } : worker)) };
}

function numbers(indexes: readonly number[]): string {
  const first = indexes.slice(0, 10).join(", ");
  return indexes.length > 10 ? `${first} and ${indexes.length - 10} more` : first;
}
