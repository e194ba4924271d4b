import { formatTime } from "@keelson/api-machinery/time";

/** A condition of a workload: as a standard one, but some kinds have times of their own. */
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
 * The conditions with one set, if its status or reason is another: `lastTransitionTime` changes with the status only. The
 * message alone changes nothing, unless `always`.
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

/** The conditions without one. */
export function withoutCondition(conditions: readonly WorkloadCondition[], type: string): readonly WorkloadCondition[] {
  return conditions.some((one) => one.type === type) ? conditions.filter((one) => one.type !== type) : conditions;
}
