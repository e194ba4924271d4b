import type { ObjectKey } from "@keelson/api-machinery";

/** The key of an object to reconcile, of the controller's kind. */
export type Request = ObjectKey;

/**
 * Result of a reconcile. Nothing, or `{}`, means done until something changes. `requeueAfterMs` runs it again after that time, not
 * rate-limited. A reconcile that throws is retried with exponential backoff, unless it throws a {@link TerminalError}.
 */
export interface Result {
  readonly requeueAfterMs?: number;
  /** Overrides the request's priority in the queue. */
  readonly priority?: number;
}

/** An error that a retry cannot fix. It is logged and counted; the request is not retried until the object changes. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";
  readonly code = "Terminal";
}

/** Whether `error` is a {@link TerminalError}, also one of another copy of this package. */
export function isTerminalError(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "Terminal";
}
