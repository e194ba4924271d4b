/** A Pod with many files is measured for at most this share of the time. */
const shareOfTime = 0.1;
/** A Pod that could not be counted in time so often, in consecutive measurements, is evicted. */
export const maxTimeouts = 3;

/** What is known of the earlier measurements of a Pod. */
export interface MeasurementHistory {
  /** Whether the Pod has so many files that it is measured on its own. */
  readonly isSlow: boolean;
  /** When the Pod is measured again, on the monotonic clock. */
  readonly dueAt: number;
  /** Pods with a lower value are measured first: how long it took, negative if other Pods took all the time. */
  readonly order: number;
  /** Consecutive measurements on its own that ran out of time. */
  readonly timeouts: number;
}

/** How a measurement of a Pod ended. */
export type MeasurementOutcome =
  | { readonly kind: "measured"; readonly tookMs: number }
  /** A path of the Pod took too long. */
  | { readonly kind: "timedOut" }
  /** The time was over before the Pod was reached. */
  | { readonly kind: "skipped" }
  /** The program that counts failed. */
  | { readonly kind: "failed" };

/** A Pod that has not been measured comes after those that are known to have few files. */
export const unmeasured: MeasurementHistory = {
  isSlow: false,
  dueAt: 0,
  order: Number.POSITIVE_INFINITY,
  timeouts: 0,
};

/** The history after a measurement that ended at `now`, where Pods are measured every `intervalMs`. */
export function afterMeasurement(
  history: MeasurementHistory,
  outcome: MeasurementOutcome,
  { now, intervalMs }: { readonly now: number; readonly intervalMs: number },
): MeasurementHistory {
  switch (outcome.kind) {
    case "measured": {
      const pauseMs = outcome.tookMs / shareOfTime;
      const isSlow = pauseMs > intervalMs;
      return { isSlow, dueAt: isSlow ? now + pauseMs : now, order: outcome.tookMs, timeouts: 0 };
    }
    case "timedOut":
      // Together with other Pods it may have had little time, so that does not count.
      if (!history.isSlow) return { ...history, isSlow: true, dueAt: now };
      return { ...history, dueAt: now + intervalMs, timeouts: history.timeouts + 1 };
    case "skipped":
      return { ...history, order: -1 };
    case "failed":
      return { ...history, dueAt: now + (history.isSlow ? intervalMs : 0) };
  }
}
