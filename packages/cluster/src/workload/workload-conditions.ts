import { formatTime } from "@keelson/api-machinery/time";

/** A condition of a workload: a standard condition plus the times that some kinds add. */
export interface WorkloadCondition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
  lastUpdateTime?: string;
  lastProbeTime?: string;
}

/**
 * Sets a condition if its status or reason changed. `lastTransitionTime` changes only with the status. A new message alone changes
 * nothing unless `always` is set.
 */
export function withCondition(
  conditions: readonly WorkloadCondition[],
  condition: { readonly type: string; readonly status: string; readonly reason: string; readonly message: string },
  now: number,
  options: { readonly updateTime?: boolean; readonly always?: boolean } = {},
): readonly WorkloadCondition[] {
  const before = conditions.find(({ type }) => type === condition.type);
  if (!options.always && before?.status === condition.status && before.reason === condition.reason) return conditions;
  const time = formatTime(now);
  const { type, status, reason, message } = condition;
  const after: WorkloadCondition = {
    type,
    status,
    ...(options.updateTime ? { lastUpdateTime: time } : {}),
    lastTransitionTime: before?.status === status && before.lastTransitionTime ? before.lastTransitionTime : time,
    reason,
    message,
  };
  return [...conditions.filter((one) => one.type !== type), after];
}

/** Removes a condition. */
export function withoutCondition(conditions: readonly WorkloadCondition[], type: string): readonly WorkloadCondition[] {
  return conditions.some((one) => one.type === type) ? conditions.filter((one) => one.type !== type) : conditions;
}
