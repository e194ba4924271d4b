/** Minimum interval of updates that change positions only, in milliseconds. */
export const positionIntervalMs = 1000;
/** Maximum number of such updates at a time: a long queue must not delay the admission of jobs. */
export const maxPositionUpdates = 10;

/** Limits the rate of updates that change positions only. */
export class PositionUpdates {
  /** Monotonic time from which updates may be written. */
  #dueAt = Number.NEGATIVE_INFINITY;

  /** The updates to write now, those at the head of the queue first, and the time until the rest may be written. `now` is monotonic. */
  take<T extends { readonly position: number | undefined }>(
    updates: readonly T[],
    now: number,
  ): { readonly due: readonly T[]; readonly waitMs?: number } {
    if (updates.length === 0) return { due: [] };
    if (now < this.#dueAt) return { due: [], waitMs: this.#dueAt - now };
    this.#dueAt = now + positionIntervalMs;
    const last = Number.MAX_SAFE_INTEGER;
    const ordered = updates.toSorted((a, b) => (a.position ?? last) - (b.position ?? last));
    const due = ordered.slice(0, maxPositionUpdates);
    return due.length === updates.length ? { due } : { due, waitMs: positionIntervalMs };
  }
}
