import type { Condition, DeepReadonly } from "@keelson/api-machinery";

/** A condition as a decision states it: without the time, which follows from what was there. */
export type ConditionClaim = Omit<Condition, "lastTransitionTime">;

/** The claims as conditions: `lastTransitionTime` is kept where the status of the condition is as it was. */
export function conditionsOf(
  claims: readonly ConditionClaim[],
  present: DeepReadonly<Condition[]> | undefined,
  now: number,
): Condition[] {
  return claims.map((claim) => {
    const before = present?.find((each) => each.type === claim.type);
    const lastTransitionTime = before?.status === claim.status ? before.lastTransitionTime : wholeSeconds(now);
    return { ...claim, lastTransitionTime };
  });
}

/** RFC 3339 with whole seconds, as conditions have it. */
export function wholeSeconds(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
