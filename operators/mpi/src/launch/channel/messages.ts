import { maxExitCode } from "../exit-codes.ts";
import type { RankEnd } from "../rank-wrapper.ts";

/** A worker's message to its launcher. */
export type WorkerMessage =
  | { readonly type: "join"; readonly worker: number }
  /** Its program has ended. The exit code is 128 plus the signal number after a signal, and 127 for a missing program. */
  | { readonly type: "ended"; readonly exitCode: number; readonly message?: string }
  /** The command of a call has ended. */
  | { readonly type: "callEnded"; readonly call: number; readonly exitCode: number }
  /** The program of a rank has ended by itself, before mpiexec stopped it. */
  | ({ readonly type: "rankEnded" } & RankEnd)
  | { readonly type: "alive" };

/** A launcher's message to its workers. */
export type LauncherMessage =
  /** Run these words, without a shell. */
  | { readonly type: "run"; readonly words: readonly string[] }
  /** Run these words for a call of a session, alongside those of other calls. */
  | { readonly type: "runCall"; readonly call: number; readonly words: readonly string[] }
  /** The job has ended. */
  | { readonly type: "over"; readonly exitCode: number }
  | { readonly type: "alive" };

/** Parses a worker's message; `undefined` if it is not valid. */
export function workerMessage(value: unknown): WorkerMessage | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { type, worker, rank, exitCode, at, message, call } = value as Record<string, unknown>;
  if (type === "alive") return { type };
  if (type === "join" && isCount(worker)) return { type, worker };
  if (type === "rankEnded" && isCount(rank) && isExitCode(exitCode) && typeof at === "number")
    return { type, rank, exitCode, at };
  if (type === "callEnded" && isId(call) && isExitCode(exitCode)) return { type, call, exitCode };
  if (type === "ended" && isExitCode(exitCode))
    return { type, exitCode, ...(typeof message === "string" ? { message: message.slice(0, 1024) } : {}) };
  return undefined;
}

/** Parses a launcher's message; `undefined` if it is not valid. */
export function launcherMessage(value: unknown): LauncherMessage | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { type, words, exitCode, call } = value as Record<string, unknown>;
  if (type === "alive") return { type };
  if (type === "over" && isExitCode(exitCode)) return { type, exitCode };
  if (!Array.isArray(words) || words.length === 0 || !words.every((word) => typeof word === "string")) return undefined;
  if (type === "run") return { type, words };
  return type === "runCall" && isId(call) ? { type, call, words } : undefined;
}

/** The id of a call is the process id of its agent. */
function isId(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function isExitCode(value: unknown): value is number {
  return isCount(value) && value <= maxExitCode;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 1_000_000;
}
