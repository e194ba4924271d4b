import type { VerdictCounts } from "./verdict.ts";

/** Share of passed rounds in percent, with its 95 % confidence interval. */
export interface PassRate {
  readonly percent: number;
  readonly lowPercent: number;
  readonly highPercent: number;
}

/** Two-sided 95 % quantile of the standard normal distribution. */
const z = 1.959964;

/**
 * The pass rate of a test with its Wilson score interval, which stays within 0 to 100 and is useful from the first round. Rounds that
 * say nothing about the system (Error, Inconclusive) do not count. Undefined without rounds.
 */
export function passRate({ passed = 0, failed = 0, timeout = 0 }: VerdictCounts): PassRate | undefined {
  const rounds = passed + failed + timeout;
  if (rounds === 0) return undefined;
  const share = passed / rounds;
  const weight = 1 + (z * z) / rounds;
  const center = (share + (z * z) / (2 * rounds)) / weight;
  const margin = (z * Math.sqrt((share * (1 - share)) / rounds + (z * z) / (4 * rounds * rounds))) / weight;
  return {
    percent: toPercent(share),
    lowPercent: toPercent(Math.max(center - margin, 0)),
    highPercent: toPercent(Math.min(center + margin, 1)),
  };
}

const toPercent = (share: number): number => Math.round(share * 10_000) / 100;
