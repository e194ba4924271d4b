import type { Condition } from "./object.ts";
import { formatTime } from "../values/time.ts";

/** A condition to set. The transition time comes from the clock; `message` defaults to the empty string. */
export interface ConditionInput {
  readonly type: string;
  readonly status: Condition["status"] | boolean;
  /** CamelCase, not empty. */
  readonly reason: string;
  readonly message?: string;
  /** The `metadata.generation` that the condition was observed at. */
  readonly observedGeneration?: number | undefined;
}

/** Returns the condition of the given type. */
export function findCondition<C extends { readonly type: string }>(
  conditions: readonly C[] | undefined,
  type: string,
): C | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Reports whether the condition of the given type has status `True`. */
export function isConditionTrue(
  conditions: readonly { readonly type?: string | undefined; readonly status?: string | undefined }[] | undefined,
  type: string,
): boolean {
  return conditions?.some((condition) => condition.type === type && condition.status === "True") ?? false;
}

/**
 * Returns the conditions with one replaced in place, or appended. `lastTransitionTime` changes only when `status` does. If
 * nothing changes, the same list is returned, so callers can skip the write by comparing identity. `nowMs` counts from the
 * epoch.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  input: ConditionInput,
  nowMs: number,
): readonly Condition[] {
  const list = conditions ?? [];
  const index = list.findIndex((condition) => condition.type === input.type);
  const before = list[index];
  const status = typeof input.status === "boolean" ? (input.status ? "True" : "False") : input.status;
  const after: Condition = {
    type: input.type,
    status,
    ...(input.observedGeneration === undefined ? {} : { observedGeneration: input.observedGeneration }),
    lastTransitionTime: before?.status === status ? before.lastTransitionTime : formatTime(nowMs),
    reason: input.reason,
    message: input.message ?? "",
  };
  if (before === undefined) return [...list, after];
  const isSame =
    before.status === after.status &&
    before.reason === after.reason &&
    before.message === after.message &&
    before.observedGeneration === after.observedGeneration;
  return isSame ? list : list.with(index, after);
}

/** Returns the conditions without those types; the same list if none of them is present. */
export function removeConditions(conditions: readonly Condition[], ...types: readonly string[]): readonly Condition[] {
  return conditions.some((condition) => types.includes(condition.type))
    ? conditions.filter((condition) => !types.includes(condition.type))
    : conditions;
}
