import type { CachedPod } from "./pod-state.ts";

const initialMs = 1_000;
const maxMs = 5 * 60_000;
/** A key without a new failure for this long starts from the beginning, as the backoff of kube-controller-manager does. */
const resetMs = 2 * maxMs;

interface Entry {
  readonly at: number;
  readonly delayMs: number;
  /** Uids of the failed Pods that have been replaced. */
  readonly replaced: ReadonlySet<string>;
}

/**
 * Delays the replacement of failed Pods: the first is replaced immediately, the following ones 1, 2, 4 ... seconds after the previous one,
 * at most 5 minutes. A node that rejects every Pod of a workload would otherwise be sent new ones without end.
 */
export class FailedPodBackoff {
  readonly #entries = new Map<string, Entry>();

  /**
   * For how many milliseconds the failed Pods of a key must not be replaced. 0: the caller replaces them now, which delays the replacement
   * of others. `now` is monotonic.
   */
  delay(key: string, failed: readonly CachedPod[], now: number): number {
    const entry = this.#entries.get(key);
    const uids = failed.map(({ metadata }) => metadata.uid ?? "");
    if (uids.every((uid) => entry?.replaced.has(uid))) return 0;
    const isReset = entry === undefined || now - entry.at >= resetMs;
    const remainingMs = isReset ? 0 : entry.at + entry.delayMs - now;
    if (remainingMs > 0) return remainingMs;
    for (const [other, { at }] of this.#entries) if (now - at >= resetMs) this.#entries.delete(other);
    const delayMs = isReset ? initialMs : Math.min(2 * entry.delayMs, maxMs);
    this.#entries.set(key, { at: now, delayMs, replaced: new Set(uids) });
    return 0;
  }

  /** Starts a reconcile, in which each failed Pod has its own key. */
  hold(keyOf: (pod: CachedPod) => string, now: number): PodHold {
    return new PodHold((pod) => this.delay(keyOf(pod), [pod], now));
  }
}

/** The failed Pods that one reconcile keeps. */
export class PodHold {
  readonly #delay: (pod: CachedPod) => number;
  #requeueAfterMs: number | undefined;

  constructor(delay: (pod: CachedPod) => number) {
    this.#delay = delay;
  }

  /** Whether a failed Pod is kept for now. */
  readonly isHeld = (pod: CachedPod): boolean => {
    const ms = this.#delay(pod);
    if (ms === 0) return false;
    this.#requeueAfterMs = Math.min(this.#requeueAfterMs ?? ms, ms);
    return true;
  };

  /** When the first of the Pods that are kept may be replaced. */
  get requeueAfterMs(): number | undefined {
    return this.#requeueAfterMs;
  }
}
