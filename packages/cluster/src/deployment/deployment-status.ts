import { jsonEquals } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import { type WorkloadCondition, withCondition, withoutCondition } from "../workload/workload-conditions.ts";
import { desiredReplicas, type Generations, rollingBounds, type CachedDeployment } from "./replica-sets.ts";

/** The status of a Deployment, and when its progress deadline must be checked again. */
export interface DeploymentStatus {
  readonly status: CachedDeployment["status"];
  readonly isChanged: boolean;
  readonly requeueAfterMs: number | undefined;
}

interface Counts {
  readonly replicas: number;
  readonly updatedReplicas: number;
  readonly readyReplicas: number;
  readonly availableReplicas: number;
}

/** `kubectl` sets 2^31 - 1 for "no deadline". */
const noDeadline = 2 ** 31 - 1;

/** Computes the status of a Deployment by the rules of kube-controller-manager. */
export function statusOf(deployment: CachedDeployment, generations: Generations, now: number): DeploymentStatus {
  const all = generations.current === undefined ? generations.old : [...generations.old, generations.current];
  const sum = (count: (status: NonNullable<(typeof all)[number]["status"]>) => number | undefined): number =>
    all.reduce((total, one) => total + (count(one.status ?? {}) ?? 0), 0);
  const counts: Counts = {
    replicas: sum(({ replicas }) => replicas),
    updatedReplicas: generations.current?.status?.replicas ?? 0,
    readyReplicas: sum(({ readyReplicas }) => readyReplicas),
    availableReplicas: sum(({ availableReplicas }) => availableReplicas),
  };
  const terminating = sum((status) => (status as { terminatingReplicas?: number }).terminatingReplicas);
  const desired = desiredReplicas(deployment);
  const specified = all.reduce((total, one) => total + (one.spec.replicas ?? 1), 0);
  const unavailable = Math.max(specified - counts.availableReplicas, 0);
  const conditions = conditionsOf(deployment, generations, counts, now);
  const { collisionCount } = deployment.status ?? {};
  const status = {
    observedGeneration: deployment.metadata.generation ?? 0,
    ...Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)),
    ...(unavailable > 0 ? { unavailableReplicas: unavailable } : {}),
    ...(terminating > 0 ? { terminatingReplicas: terminating } : {}),
    ...(conditions.length > 0 ? { conditions } : {}),
    ...(collisionCount === undefined ? {} : { collisionCount }),
  } as CachedDeployment["status"];
  const progressing = conditions.find(({ type }) => type === "Progressing");
  const waits =
    progressing !== undefined && hasDeadline(deployment) && !deployment.spec.paused && desired > 0 && mayTimeOut(progressing);
  return {
    status,
    isChanged: !jsonEquals(status, deployment.status),
    // API times have whole seconds, so the deadline has passed only in the following second.
    requeueAfterMs: waits ? Math.max(deadlineAt(deployment, progressing) - now, 0) + 1_000 : undefined,
  };
}

function conditionsOf(
  deployment: CachedDeployment,
  generations: Generations,
  counts: Counts,
  now: number,
): readonly WorkloadCondition[] {
  let conditions = (deployment.status?.conditions ?? []) as readonly WorkloadCondition[];
  const minimum = desiredReplicas(deployment) - rollingBounds(deployment).maxUnavailable;
  const isAvailable = counts.availableReplicas >= minimum;
  conditions = withCondition(
    conditions,
    isAvailable
      ? condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
      : condition("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    now,
    { updateTime: true },
  );
  conditions = progress(conditions, deployment, generations, counts, now);
  return failure(conditions, generations, now);
}

function progress(
  conditions: readonly WorkloadCondition[],
  deployment: CachedDeployment,
  { current }: Generations,
  counts: Counts,
  now: number,
): readonly WorkloadCondition[] {
  if (!hasDeadline(deployment)) return withoutCondition(conditions, "Progressing");
  const set = (status: string, reason: string, message: string): readonly WorkloadCondition[] =>
    withCondition(conditions, condition("Progressing", status, reason, message), now, { updateTime: true });
  const before = conditions.find(({ type }) => type === "Progressing");
  if (deployment.spec.paused) {
    return before?.reason === "ProgressDeadlineExceeded"
      ? conditions
      : set("Unknown", "DeploymentPaused", "Deployment is paused");
  }
  if (before?.reason === "DeploymentPaused") return set("Unknown", "DeploymentResumed", "Deployment is resumed");
  const name = current === undefined ? undefined : `ReplicaSet "${current.metadata.name}"`;
  const subject = name ?? `Deployment "${deployment.metadata.name}"`;
  if (before === undefined && name !== undefined) {
    conditions = set("True", "NewReplicaSetCreated", `Created new replica set "${current?.metadata.name}"`);
  }
  // A complete rollout stays complete until the template changes: replacing a Pod is not a rollout.
  if (counts.replicas === counts.updatedReplicas && before?.reason === "NewReplicaSetAvailable") return conditions;
  if (isComplete(deployment, counts)) {
    return set("True", "NewReplicaSetAvailable", `${subject} has successfully progressed.`);
  }
  if (hasProgressed(deployment, counts)) {
    // Every step restarts the deadline.
    const step = condition("Progressing", "True", "ReplicaSetUpdated", `${subject} is progressing.`);
    return withCondition(conditions, step, now, { updateTime: true, always: true });
  }
  if (before !== undefined && mayTimeOut(before) && now > deadlineAt(deployment, before)) {
    return set("False", "ProgressDeadlineExceeded", `${subject} has timed out progressing.`);
  }
  return conditions;
}

function failure(conditions: readonly WorkloadCondition[], { current, old }: Generations, now: number) {
  const failed = [...(current === undefined ? [] : [current]), ...old]
    .flatMap((one) => (one.status?.conditions ?? []) as readonly WorkloadCondition[])
    .find(({ type, status }) => type === "ReplicaFailure" && status === "True");
  if (failed === undefined) return withoutCondition(conditions, "ReplicaFailure");
  const { reason = "FailedCreate", message = "" } = failed;
  return withCondition(conditions, condition("ReplicaFailure", "True", reason, message), now, { updateTime: true });
}

/** Whether every Pod is of the current template and available, and no other Pod is left. */
function isComplete(deployment: CachedDeployment, counts: Counts): boolean {
  const desired = desiredReplicas(deployment);
  return counts.updatedReplicas === desired && counts.replicas === desired && counts.availableReplicas === desired;
}

function hasProgressed(deployment: CachedDeployment, counts: Counts): boolean {
  const { replicas = 0, updatedReplicas = 0, readyReplicas = 0, availableReplicas = 0 } = deployment.status ?? {};
  return (
    counts.updatedReplicas > updatedReplicas ||
    counts.replicas - counts.updatedReplicas < replicas - updatedReplicas ||
    counts.readyReplicas > readyReplicas ||
    counts.availableReplicas > availableReplicas
  );
}

function hasDeadline({ spec }: CachedDeployment): boolean {
  return spec.progressDeadlineSeconds !== undefined && spec.progressDeadlineSeconds !== noDeadline;
}

function mayTimeOut({ reason }: WorkloadCondition): boolean {
  return reason !== "NewReplicaSetAvailable" && reason !== "ProgressDeadlineExceeded";
}

function deadlineAt({ spec }: CachedDeployment, { lastUpdateTime }: WorkloadCondition): number {
  return (parseTime(lastUpdateTime ?? "") ?? 0) + (spec.progressDeadlineSeconds ?? 0) * 1_000;
}

function condition(type: string, status: string, reason: string, message: string) {
  return { type, status, reason, message };
}
