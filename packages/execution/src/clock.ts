/** A timer that can be cancelled. */
export interface Timer {
  cancel(): void;
}

/**
 * What this package needs of a clock. `systemClock` and `VirtualClock` of `@keelson/api-machinery` fit; the shape is repeated
 * here because this package stands below nothing and beside everything.
 */
export interface Clock {
  /** Milliseconds since the epoch. May jump. */
  now(): number;
  /** Milliseconds from an arbitrary start; never goes back. */
  monotonic(): number;
  setTimer(delayMs: number, callback: () => void, options?: { readonly background?: boolean }): Timer;
}
