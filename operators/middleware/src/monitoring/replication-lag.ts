/** State of a Pod as its agent reports it. */
export interface PodFigures {
  readonly role: string;
  /** Replication offset: how much of the primary's data the Pod has. */
  readonly offset?: number;
}

/** How many bytes a replica is behind its primary. Undefined for other Pods, and if one of the two is unknown. */
export function replicationLag(own: PodFigures | undefined, primary: PodFigures | undefined): number | undefined {
  if (own?.role !== "replica" || own.offset === undefined || primary?.offset === undefined) return undefined;
  // The offsets are read one after the other.
  return Math.max(primary.offset - own.offset, 0);
}
