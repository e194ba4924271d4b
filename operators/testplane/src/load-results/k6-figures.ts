import type { LoadResult } from "../api/load-result.ts";
import { shownErrorPercent } from "./error-percent.ts";

/** Figures that k6 may not have reported. */
export interface K6Figures {
  readonly requests: number | undefined;
  readonly failed: number | undefined;
  readonly requestsPerSecond: number | undefined;
}

/** The figures as fields of a result. Those that are not known are absent, because 0 would look like a success. */
export function knownFigures(
  figures: K6Figures,
): Pick<LoadResult, "requests" | "failed" | "errorPercent" | "requestsPerSecond"> {
  const { requests, failed, requestsPerSecond } = figures;
  const errorPercent = shownErrorPercent(figures);
  return {
    ...(requests === undefined ? {} : { requests }),
    ...(failed === undefined ? {} : { failed }),
    ...(errorPercent === undefined ? {} : { errorPercent }),
    ...(requestsPerSecond === undefined ? {} : { requestsPerSecond: Number(requestsPerSecond.toFixed(3)) }),
  };
}
