import type { DeploymentObject, ReplicaSetObject } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import { resolveIntOrPercent } from "../workload/int-or-percent.ts";
import { hashOf, isSameTemplate, templateHashLabel } from "../workload/template-hash.ts";
import type { Seen } from "../workload/write.ts";

/** A Deployment as it is read. */
export type SeenDeployment = Seen<DeploymentObject>;
/** A ReplicaSet as it is read. */
export type SeenReplicaSet = Seen<ReplicaSetObject>;

/** Annotation: the how-manieth template this is. */
export const revisionAnnotation = "deployment.kubernetes.io/revision";
/** Annotation of a ReplicaSet: the revisions that it was before it was rolled back to. */
export const revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history";
/** Annotation of a ReplicaSet: `spec.replicas` of its Deployment when it was last scaled. */
export const desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas";
/** Annotation of a ReplicaSet: the same with what may be above it. */
export const maxReplicasAnnotation = "deployment.kubernetes.io/max-replicas";

const notInherited = new Set([
  "kubectl.kubernetes.io/last-applied-configuration",
  "deprecated.deployment.rollback.to",
  revisionAnnotation,
  revisionHistoryAnnotation,
  desiredReplicasAnnotation,
  maxReplicasAnnotation,
]);

/** The annotations that a Deployment's ReplicaSets take over from it. */
export function inheritedAnnotations(deployment: SeenDeployment): Record<string, string> {
  return Object.fromEntries(Object.entries(deployment.metadata.annotations ?? {}).filter(([key]) => !notInherited.has(key)));
}

/** The number of Pods that a Deployment asks for. */
export function desiredReplicas(deployment: SeenDeployment): number {
  return deployment.spec.replicas ?? 1;
}

/** The number of Pods that a ReplicaSet is to have. */
export function sizeOf(replicaSet: SeenReplicaSet): number {
  return replicaSet.spec.replicas ?? 1;
}

/** The sum of sizes. */
export function totalSize(replicaSets: readonly SeenReplicaSet[]): number {
  return replicaSets.reduce((sum, one) => sum + sizeOf(one), 0);
}

/** How many Pods of a rolling update may be above, and how many below, what is desired. Of the two one is above 0. */
export function rollingBounds(deployment: SeenDeployment): { readonly maxSurge: number; readonly maxUnavailable: number } {
  if (deployment.spec.strategy?.type === "Recreate") return { maxSurge: 0, maxUnavailable: 0 };
  const rolling = deployment.spec.strategy?.rollingUpdate;
  const desired = desiredReplicas(deployment);
  const maxSurge = resolveIntOrPercent(rolling?.maxSurge ?? "25%", desired, "up");
  const maxUnavailable = Math.min(resolveIntOrPercent(rolling?.maxUnavailable ?? "25%", desired, "down"), desired);
  // Both may round to 0, and then nothing could ever be replaced.
  return maxSurge === 0 && maxUnavailable === 0 && desired > 0 ? { maxSurge, maxUnavailable: 1 } : { maxSurge, maxUnavailable };
}

/** The revision that an object's annotation tells; 0 where it tells none. */
export function revisionOf(object: Seen): number {
  const text = object.metadata.annotations?.[revisionAnnotation] ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/** A Deployment's ReplicaSets by what they are to it. */
export interface Generations {
  /** Makes the Pods of the present template. */
  readonly current: SeenReplicaSet | undefined;
  /** All others, oldest first. */
  readonly old: readonly SeenReplicaSet[];
  /** Name that a ReplicaSet of the present template gets. */
  readonly hash: string;
}

/** Tells the ReplicaSet of the present template from the others. Of several the oldest counts, so that the choice stays. */
export function generationsOf(deployment: SeenDeployment, owned: readonly SeenReplicaSet[]): Generations {
  const hash = hashOf(deployment.spec.template, deployment.status?.collisionCount);
  const sorted = byAge(owned);
  const current =
    sorted.find((one) => isSameTemplate(one.spec.template, deployment.spec.template)) ??
    // A server that fills in other defaults for a ReplicaSet than for a Deployment must not make us start over for ever.
    sorted.find(({ metadata: { labels, name } }) => labels?.[templateHashLabel] === hash && name === nameOf(deployment, hash));
  return { current, old: sorted.filter((one) => one !== current), hash };
}

/** The name of a Deployment's ReplicaSet of this hash. */
export function nameOf(deployment: SeenDeployment, hash: string): string {
  // The name leaves room for that of the Pods.
  return `${(deployment.metadata.name ?? "").slice(0, 253 - 7 - hash.length)}-${hash}`;
}

/** Oldest first, then by name. */
export function byAge(replicaSets: readonly SeenReplicaSet[]): readonly SeenReplicaSet[] {
  const at = (one: SeenReplicaSet): number => parseTime(one.metadata.creationTimestamp ?? "") ?? 0;
  return replicaSets.toSorted((a, b) => at(a) - at(b) || ((a.metadata.name ?? "") < (b.metadata.name ?? "") ? -1 : 1));
}
