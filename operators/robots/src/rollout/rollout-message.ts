/** Task counts of a rollout. */
export interface RolloutCounts {
  readonly total: number;
  readonly updated: number;
  readonly healthy: number;
  readonly unhealthy: number;
  readonly offline: number;
}

/** Progress of a rollout as readable text. */
export function describeProgress(counts: RolloutCounts, revision: number, reason?: string): string {
  const { total, updated, healthy, unhealthy, offline } = counts;
  const parts = [
    `${updated} of ${total} tasks run revision ${revision}, ${healthy} healthy`,
    ...(unhealthy > 0 ? [`${unhealthy} unhealthy`] : []),
    ...(offline > 0 ? [`${offline} follow when their robot returns`] : []),
  ];
  return reason === undefined ? parts.join(", ") : `${parts.join(", ")}; ${reason}`;
}
