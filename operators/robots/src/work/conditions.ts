import type { Condition, DeepReadonly } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";

/** A condition as a decision states it, without `lastTransitionTime`. */
export type ConditionClaim = Omit<Condition, "lastTransitionTime">;

/** Turns claims into conditions. `lastTransitionTime` is kept if the condition's status did not change. */
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

/** Whether an object has a condition of this type, whatever its status. */
export function hasCondition(
  object: { readonly status?: { readonly conditions?: DeepReadonly<Condition[]> } },
  type: string,
): boolean {
  return object.status?.conditions?.some((condition) => condition.type === type) ?? false;
}

/** RFC 3339 with whole seconds, the format of condition times. */
export function wholeSeconds(ms: number): string {
  return formatTime(ms);
}
