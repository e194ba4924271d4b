/** Validity of a robot's certificate: 90 days. The agent renews it when a third is left. */
export const certificateLifeMs = 90 * 86_400_000;
