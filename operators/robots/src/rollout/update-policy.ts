import type { DeepReadonly } from "@keelson/api-machinery";
import type { UpdatePolicy } from "../api/update-policy.ts";
import { durationMsOf } from "../work/durations.ts";

/** An update policy with defaults, durations parsed, and numbers resolved for a group of a certain size. */
export interface CompleteUpdatePolicy {
  /** At least 1. */
  readonly maxParallel: number;
  readonly minHealthyMs: number;
  readonly healthyDeadlineMs: number;
  readonly progressDeadlineMs: number;
  readonly canary: number;
  readonly autoPromote: boolean;
  readonly autoRevert: boolean;
  /** Number of unhealthy tasks that a rollout survives. */
  readonly maxUnhealthy: number;
  readonly waves: readonly DeepReadonly<NonNullable<UpdatePolicy["waves"]>[number]>[];
  readonly windows: readonly DeepReadonly<NonNullable<UpdatePolicy["maintenanceWindows"]>[number]>[];
}

/** The policy of a group: its own fields, then those of the Job, then the defaults (Nomad's). `total` is the group's number of tasks. */
export function completeUpdatePolicy(
  policies: readonly (DeepReadonly<UpdatePolicy> | undefined)[],
  total: number,
): CompleteUpdatePolicy {
  const policy = mergeUpdatePolicies(policies);
  return {
    maxParallel: Math.max(amountOf(policy.maxParallel ?? 1, total, Math.ceil), 1),
    minHealthyMs: durationMsOf(policy.minHealthyTime ?? "10s"),
    healthyDeadlineMs: durationMsOf(policy.healthyDeadline ?? "5m"),
    progressDeadlineMs: durationMsOf(policy.progressDeadline ?? "10m"),
    canary: Math.min(policy.canary ?? 0, total),
    autoPromote: policy.autoPromote ?? false,
    autoRevert: policy.autoRevert ?? false,
    maxUnhealthy: amountOf(policy.abortThreshold ?? 0, total, Math.floor),
    waves: policy.waves ?? [],
    windows: policy.maintenanceWindows ?? [],
  };
}

/** Earlier policies override later ones, field by field. */
export function mergeUpdatePolicies(policies: readonly (DeepReadonly<UpdatePolicy> | undefined)[]): DeepReadonly<UpdatePolicy> {
  return policies.reduceRight<DeepReadonly<UpdatePolicy>>((merged, policy) => ({ ...merged, ...policy }), {});
}

/** A number, or a percentage of `total`. */
function amountOf(value: number | string, total: number, round: (value: number) => number): number {
  if (typeof value === "number") return value;
  const number = Number.parseInt(value, 10);
  return value.endsWith("%") ? round((number * total) / 100) : number;
}
