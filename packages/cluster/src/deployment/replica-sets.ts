import type { DeploymentObject, ReplicaSetObject } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import { resolveIntOrPercent } from "../workload/int-or-percent.ts";
import { hashOf, isSameTemplate, templateHashLabel } from "../workload/template-hash.ts";
import type { Cached } from "../workload/write.ts";

/** A Deployment from the cache. */
export type CachedDeployment = Cached<DeploymentObject>;
/** A ReplicaSet from the cache. */
export type CachedReplicaSet = Cached<ReplicaSetObject>;

/** Annotation: the revision number of the template. */
export const revisionAnnotation = "deployment.kubernetes.io/revision";
/** Annotation of a ReplicaSet: its earlier revisions, before rollbacks made it the newest again. */
export const revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history";
/** Annotation of a ReplicaSet: `spec.replicas` of its Deployment at the last scaling. */
export const desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas";
/** Annotation of a ReplicaSet: {@link desiredReplicasAnnotation} plus the surge. */
export const maxReplicasAnnotation = "deployment.kubernetes.io/max-replicas";

const notInherited = new Set([
  "kubectl.kubernetes.io/last-applied-configuration",
  "deprecated.deployment.rollback.to",
  revisionAnnotation,
  revisionHistoryAnnotation,
  desiredReplicasAnnotation,
  maxReplicasAnnotation,
]);

/** Annotations that ReplicaSets inherit from their Deployment. */
export function inheritedAnnotations(deployment: CachedDeployment): Record<string, string> {
  return Object.fromEntries(Object.entries(deployment.metadata.annotations ?? {}).filter(([key]) => !notInherited.has(key)));
}

/** The number of Pods that a Deployment requests. */
export function desiredReplicas(deployment: CachedDeployment): number {
  return deployment.spec.replicas ?? 1;
}

/** The number of Pods that a ReplicaSet requests. */
export function sizeOf(replicaSet: CachedReplicaSet): number {
  return replicaSet.spec.replicas ?? 1;
}

/** The sum of sizes. */
export function totalSize(replicaSets: readonly CachedReplicaSet[]): number {
  return replicaSets.reduce((sum, one) => sum + sizeOf(one), 0);
}

/** Resolves `maxSurge` and `maxUnavailable` to Pods. At least one of them is above 0 while Pods are desired. */
export function rollingBounds(deployment: CachedDeployment): { readonly maxSurge: number; readonly maxUnavailable: number } {
  if (deployment.spec.strategy?.type === "Recreate") return { maxSurge: 0, maxUnavailable: 0 };
  const rolling = deployment.spec.strategy?.rollingUpdate;
  const desired = desiredReplicas(deployment);
  const maxSurge = resolveIntOrPercent(rolling?.maxSurge ?? "25%", desired, "up");
  const maxUnavailable = Math.min(resolveIntOrPercent(rolling?.maxUnavailable ?? "25%", desired, "down"), desired);
  // Both may round to 0, which would block every replacement.
  return maxSurge === 0 && maxUnavailable === 0 && desired > 0 ? { maxSurge, maxUnavailable: 1 } : { maxSurge, maxUnavailable };
}

/** The value of {@link revisionAnnotation}, a 64-bit integer; 0 if it is missing or invalid. */
export function revisionOf(object: Cached): bigint {
  const text = object.metadata.annotations?.[revisionAnnotation] ?? "";
  return /^\d{1,18}$/.test(text) || /^[1-8]\d{18}$/.test(text) ? BigInt(text) : 0n;
}

/** The highest revision of ReplicaSets; 0 if there are none. */
export function highestRevision(objects: readonly Cached[]): bigint {
  return objects.map(revisionOf).reduce((highest, one) => (one > highest ? one : highest), 0n);
}

/** A Deployment's ReplicaSets by generation. */
export interface Generations {
  /** The ReplicaSet of the current template. */
  readonly current: CachedReplicaSet | undefined;
  /** All others, oldest first. */
  readonly old: readonly CachedReplicaSet[];
  /** The hash of the current template: the name suffix of a new ReplicaSet. */
  readonly hash: string;
}

/** Finds the ReplicaSet of the current template. If several match, the oldest wins, so that the choice is stable. */
export function generationsOf(deployment: CachedDeployment, owned: readonly CachedReplicaSet[]): Generations {
  const hash = hashOf(deployment.spec.template, deployment.status?.collisionCount);
  const sorted = byAge(owned);
  const current =
    sorted.find((one) => isSameTemplate(one.spec.template, deployment.spec.template)) ??
    // A server that defaults ReplicaSet templates differently must not cause endless new ReplicaSets.
    sorted.find(({ metadata: { labels, name } }) => labels?.[templateHashLabel] === hash && name === nameOf(deployment, hash));
  return { current, old: sorted.filter((one) => one !== current), hash };
}

/** The name of a Deployment's ReplicaSet with this hash. */
export function nameOf(deployment: CachedDeployment, hash: string): string {
  // The name leaves room for the Pods' suffix.
  return `${(deployment.metadata.name ?? "").slice(0, 253 - 7 - hash.length)}-${hash}`;
}

/** Sorts oldest first, then by name. */
export function byAge(replicaSets: readonly CachedReplicaSet[]): readonly CachedReplicaSet[] {
  const at = (one: CachedReplicaSet): number => parseTime(one.metadata.creationTimestamp ?? "") ?? 0;
  return replicaSets.toSorted((a, b) => at(a) - at(b) || ((a.metadata.name ?? "") < (b.metadata.name ?? "") ? -1 : 1));
}
