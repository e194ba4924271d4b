import type { Condition } from "./object.ts";
import { formatTime } from "../values/time.ts";

/** A condition to be set: the time is taken from the clock, and `message` may be left out. */
export interface ConditionInput {
  readonly type: string;
  readonly status: Condition["status"] | boolean;
  /** CamelCase, at least one character. */
  readonly reason: string;
  readonly message?: string;
  /** The generation that this was observed on. */
  readonly observedGeneration?: number | undefined;
}

/** The condition of this type. */
export function findCondition<C extends { readonly type: string }>(
  conditions: readonly C[] | undefined,
  type: string,
): C | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Whether there is a condition of this type with status `True`. */
export function isConditionTrue(
  conditions: readonly { readonly type?: string | undefined; readonly status?: string | undefined }[] | undefined,
  type: string,
): boolean {
  return conditions?.some((condition) => condition.type === type && condition.status === "True") ?? false;
}

/**
 * The conditions with one set: replaced where it stands, else appended. `lastTransitionTime` changes only where `status`
 * does. Where nothing changes at all, the very same list comes back, so that a caller can tell that there is nothing to
 * write. `nowMs` counts from the epoch.
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

/** The conditions without those of these types; the very same list where there are none. */
export function removeConditions(conditions: readonly Condition[], ...types: readonly string[]): readonly Condition[] {
  return conditions.some((condition) => types.includes(condition.type))
    ? conditions.filter((condition) => !types.includes(condition.type))
    : conditions;
}
