import type { Assignment } from "@keelson/middleware-agent";

/** The last assignment of a server. */
export interface AssignmentRecord extends Assignment {
  /** Whether this was a primary and has not streamed from its successor yet. It may have data that its successor does not have. */
  readonly isPending?: boolean;
}

/**
 * What the data of a server counts, given the end of its log. That of a former primary says nothing before it has streamed from its
 * successor: it counts less than any other, and more than none.
 */
export function amountOf(position: number, record: AssignmentRecord | undefined): number {
  return record?.isPending === true ? Math.min(position, 1) : position;
}
