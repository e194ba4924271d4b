import type { WatchLimits } from "../watch/watch-stream.ts";

/** Limits that keep slow or broken clients from holding resources. */
export interface HttpLimits extends WatchLimits {
  /** Time to receive a request's headers. Default 15 s. */
  readonly headersMs: number;
  /** Time to receive a whole request. Default 60 s. */
  readonly requestMs: number;
  /** How long a connection may be idle between requests. Default 2 min, longer than clients keep theirs. */
  readonly idleMs: number;
  /** How long `close` waits for responses in progress. Default 10 s. */
  readonly drainMs: number;
}

/** The defaults of {@link HttpLimits}. */
export const defaultLimits: HttpLimits = {
  headersMs: 15_000,
  requestMs: 60_000,
  idleMs: 120_000,
  drainMs: 10_000,
  stallMs: 60_000,
  pendingBytes: 16 * 1024 * 1024,
};

/** Maximum size of a request line with headers. */
export const maxHeaderBytes = 64 * 1024;
