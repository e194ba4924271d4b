import type { RankEnd } from "../rank-wrapper.ts";

/*
 * State, input and output of the state machine of a launch.
 */

/** Why a launcher stopped mpiexec. */
export type StopReason =
  | "BadLaunchLine"
  | "WorkerLost"
  | "WorkerFailed"
  | "RankFailed"
  | "StartDeadlineExceeded"
  | "Terminated";

/** State of one worker. */
export interface WorkerState {
  readonly words?: readonly string[];
  readonly hasJoined: boolean;
  readonly exitCode?: number;
}

/** The end of a rank that failed. */
export interface FailedRank extends RankEnd {
  readonly worker: number;
}

/** State of a launch. */
export interface LaunchState {
  readonly workers: readonly WorkerState[];
  /** Set once the launch has failed and mpiexec is being killed. */
  readonly stop?: { readonly exitCode: number; readonly reason: StopReason; readonly message: string };
  /** The first rank that failed, by time. Others fail because of it. */
  readonly failedRank?: FailedRank;
  /** Exit status of an mpiexec that failed before a failed rank was reported. */
  readonly mpiexecExitCode?: number;
  readonly isOver: boolean;
}

/** Input of a launch: see `stepLaunch`. */
export type LaunchEvent =
  /** mpiexec wants this line to run on a worker. */
  | { readonly type: "line"; readonly worker: number | undefined; readonly host: string; readonly text: string }
  | { readonly type: "joined"; readonly worker: number }
  | { readonly type: "ended"; readonly worker: number; readonly exitCode: number; readonly message?: string }
  | ({ readonly type: "rankEnded"; readonly worker: number } & RankEnd)
  /** The time for reports about ranks has passed. `isFinal`: also if none has arrived. */
  | { readonly type: "rankReportsDue"; readonly isFinal: boolean }
  | { readonly type: "lost"; readonly worker: number; readonly message: string }
  | { readonly type: "startDeadline" }
  | { readonly type: "partialExit"; readonly worker: number }
  | { readonly type: "terminate" }
  /** `killedBy`: the signal that ended it. */
  | { readonly type: "mpiexecEnded"; readonly exitCode: number; readonly killedBy?: string };

/** Output of a launch, in order. */
export type LaunchEffect =
  /** Every launch line has arrived. */
  | { readonly type: "ready" }
  | { readonly type: "run"; readonly worker: number; readonly words: readonly string[] }
  | { readonly type: "reject"; readonly worker: number; readonly message: string }
  /** End the agent that mpiexec waits for with this status. */
  | { readonly type: "endAgent"; readonly worker: number; readonly exitCode: number }
  | { readonly type: "armPartialExit"; readonly worker: number }
  | { readonly type: "armRankReports"; readonly delayMs: number; readonly isFinal: boolean }
  | { readonly type: "logFailedRank"; readonly failed: FailedRank }
  /** Log what mpiexec wrote. `failedWorkers`: exit codes of the workers that failed. */
  | { readonly type: "logMpiexecMessage"; readonly exitCode: number; readonly failedWorkers: readonly number[] }
  | { readonly type: "allJoined" }
  | { readonly type: "killMpiexec" }
  | { readonly type: "log"; readonly message: string }
  /** End the workers and exit. */
  | { readonly type: "finish"; readonly exitCode: number };
