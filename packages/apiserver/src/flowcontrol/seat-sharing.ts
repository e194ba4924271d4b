import type { DemandSummary } from "./seat-demand.ts";

/** A priority level that lends and borrows seats. */
export interface SharingLevel {
  /** Seats by its shares. */
  readonly nominal: number;
  /** How many of them other levels may use. */
  readonly lendable: number;
  /** How many seats of other levels it may use. */
  readonly borrowable: number;
  /** The highest demand of the last period. */
  readonly peak: number;
  /** The smoothed demand, see {@link smoothDemand}. */
  readonly demand: number;
}

/** How slowly the smoothed demand falls: by half in about five minutes of periods of 10 s. */
const smoothing = 0.977;

/** The smoothed demand after a period: it rises immediately and falls slowly. */
export function smoothDemand(previous: number, { mean, deviation, peak }: DemandSummary): number {
  const envelope = Math.min(peak, mean + deviation);
  return Math.max(envelope, smoothing * previous + (1 - smoothing) * envelope);
}

/**
 * Divides `total` seats among levels as API Priority and Fairness does (KEP-1040, "Dispatching"): each level gets the same multiple of its
 * demand, but not less than it needs of its own seats or does not lend, nor more than it may borrow.
 */
export function shareSeats(total: number, levels: readonly SharingLevel[]): readonly number[] {
  const bounds = levels.map(({ nominal, lendable, borrowable, peak, demand }) => {
    const min = Math.max(nominal - lendable, Math.min(nominal, peak));
    return { min, max: nominal + borrowable, target: Math.max(1, min, demand) };
  });
  const seatsAt = (multiple: number): readonly number[] =>
    bounds.map(({ min, max, target }) => Math.min(max, Math.max(min, multiple * target)));
  const sumAt = (multiple: number): number => seatsAt(multiple).reduce((sum, seats) => sum + seats, 0);
  // The sum grows with the multiple, up to `total` at the latest if a level has all seats.
  let [low, high] = [0, total];
  for (let step = 0; step < bisections; step++) {
    const middle = (low + high) / 2;
    if (sumAt(middle) <= total) low = middle;
    else high = middle;
  }
  return seatsAt(low).map((seats) => Math.max(1, Math.round(seats)));
}

/** Enough for a precision far below one seat. */
const bisections = 40;
