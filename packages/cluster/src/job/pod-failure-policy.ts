import type { CachedPod } from "../workload/pod-state.ts";
import type { CachedJob } from "./job-pod.ts";

/** One rule of a Job's `podFailurePolicy` (KEP-3329). */
interface Rule {
  readonly action: string;
  readonly onExitCodes?: {
    readonly containerName?: string | null;
    readonly operator: string;
    readonly values: readonly number[];
  };
  readonly onPodConditions?: readonly { readonly type: string; readonly status?: string }[];
}

/** The consequence of a failed Pod for its Job. */
export type FailureVerdict =
  | { readonly kind: "count" }
  | { readonly kind: "ignore" }
  /** Counts, and fails the index of the Pod permanently. */
  | { readonly kind: "fail-index" }
  | { readonly kind: "fail-job"; readonly message: string };

/** Evaluates a failed Pod against the rules; the first match wins. Without a match it counts. */
export function judgeFailure(job: CachedJob, pod: CachedPod): FailureVerdict {
  const { podFailurePolicy } = job.spec as { readonly podFailurePolicy?: { readonly rules?: readonly Rule[] } };
  for (const [at, rule] of (podFailurePolicy?.rules ?? []).entries()) {
    const cause = rule.onExitCodes === undefined ? conditionCause(rule, pod) : exitCause(rule.onExitCodes, pod);
    if (cause === undefined) continue;
    if (rule.action === "Ignore") return { kind: "ignore" };
    if (rule.action === "FailJob") {
      return { kind: "fail-job", message: `${cause} matching ${rule.action} rule at index ${at}` };
    }
    return { kind: rule.action === "FailIndex" ? "fail-index" : "count" };
  }
  return { kind: "count" };
}

function exitCause(
  { containerName, operator, values }: NonNullable<Rule["onExitCodes"]>,
  { metadata, status }: CachedPod,
): string | undefined {
  for (const container of [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])]) {
    const exitCode = container.state?.terminated?.exitCode;
    // Exit code 0 is never a failure, whatever the values.
    if (exitCode === undefined || exitCode === 0 || (containerName && containerName !== container.name)) continue;
    if (values.includes(exitCode) === (operator === "In")) {
      return `Container ${container.name} for pod ${metadata.namespace}/${metadata.name} failed with exit code ${exitCode}`;
    }
  }
  return undefined;
}

function conditionCause({ onPodConditions = [] }: Rule, { metadata, status }: CachedPod): string | undefined {
  const found = onPodConditions.find((pattern) =>
    status?.conditions?.some((one) => one.type === pattern.type && one.status === (pattern.status ?? "True")),
  );
  return found && `Pod ${metadata.namespace}/${metadata.name} has condition ${found.type}`;
}
