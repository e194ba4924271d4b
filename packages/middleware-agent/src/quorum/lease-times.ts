/** Times of the lease in milliseconds. Each leaves room for clocks whose speed differs by 5 %. */
export const leaseTimes = {
  /** An agent does not grant its lease to another Pod within this time. */
  leaseMs: 7_500,
  /** The guard kills the server of a holder whose agent did not renew the lease for this time. */
  guardMs: 6_200,
  /** The agent of a holder rejects writes if the lease was not renewed for this time. */
  fenceMs: 5_000,
  /** Interval of renewals. */
  renewMs: 1_000,
  /** A candidate that was refused stands once more after this time: another one may have yielded. */
  repeatMs: 400,
  /** A candidate gives up if it has no majority after this time. */
  candidacyMs: 1_000,
} as const;
