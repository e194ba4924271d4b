import type { Assignment } from "@keelson/middleware-agent";

/** The last assignment of a server. */
export interface AssignmentRecord extends Assignment {
  /** Whether this was a primary and has not streamed from its successor yet. It may have data that its successor does not have. */
  readonly isPending?: boolean;
}

/**
 * How much a server's data counts in an election, given the end of its log. A former primary may have data that its successor lacks, so
 * until it has streamed from its successor it ranks below every other server, but above an empty one.
 */
export function amountOf(position: number, record: AssignmentRecord | undefined): number {
  return record?.isPending === true ? Math.min(position, 1) : position;
}
