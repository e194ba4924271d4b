/** Counts of requests. Undefined: not known. */
export interface RequestCounts {
  /** Requests that were sent. */
  readonly requests?: number | undefined;
  readonly failed?: number | undefined;
  readonly notSent?: number | undefined;
}

/** Percentage of the due requests that failed or were not sent. Undefined without a request, or if a count is not known. */
export function errorPercentOf({ requests, failed, notSent = 0 }: RequestCounts): number | undefined {
  if (requests === undefined || failed === undefined || requests + notSent === 0) return undefined;
  return ((failed + notSent) * 100) / (requests + notSent);
}

/** The percentage for the status, with six digits, so that one failure in a million is not shown as 0. Undefined if it is not known. */
export function shownErrorPercent(counts: RequestCounts): number | undefined {
  if (counts.requests === undefined || counts.failed === undefined) return undefined;
  return Number((errorPercentOf(counts) ?? 0).toPrecision(6));
}
