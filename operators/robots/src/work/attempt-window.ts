/** A time range in which attempts are counted. It starts with the first of them. */
export interface AttemptWindow {
  /** Milliseconds since the epoch. */
  readonly startMs: number;
  /** Number of attempts so far. */
  readonly used: number;
}

/** The window at `now`: the past one if it has not ended, otherwise a new one. */
export function attemptWindowAt(
  past: { readonly startMs: number | undefined; readonly used: number },
  intervalMs: number,
  now: number,
): AttemptWindow {
  const { startMs, used } = past;
  return startMs !== undefined && now < startMs + intervalMs ? { startMs, used } : { startMs: now, used: 0 };
}
