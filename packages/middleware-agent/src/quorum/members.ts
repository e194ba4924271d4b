/** The Pods whose agents decide about the primary. */
export interface Members {
  /** Identifies this value. */
  readonly key: string;
  /** Addresses by Pod name. Empty: there is no lease. */
  readonly hosts: Readonly<Record<string, string>>;
  /** Bytes that a new primary may lack of what the old one reported. */
  readonly maxLagBytes: number;
}

/** No lease: the controller alone decides. */
export const noMembers: Members = { key: "", hosts: {}, maxLagBytes: 0 };
