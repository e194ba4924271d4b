/*
 * Bounds of the figures in outputs of workloads. Outputs belong to the author of the test, may be damaged or forged, and end up in the
 * status. Sums over all workers of counts within the bounds are exact, so the status always matches its schema.
 */

const maxCount = 2 ** 48;
const maxAmount = 1e12;

/** Whether a value is a non-negative integer that can be a count. */
export const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 && value <= maxCount;

/** Whether a value is a non-negative number that can be a duration, a rate or a latency. */
export const isAmount = (value: unknown): value is number => typeof value === "number" && value >= 0 && value <= maxAmount;
