import {
  byAge,
  desiredReplicas,
  desiredReplicasAnnotation,
  type Generations,
  maxReplicasAnnotation,
  rollingBounds,
  type CachedDeployment,
  type CachedReplicaSet,
  sizeOf,
  totalSize,
} from "./replica-sets.ts";

/** Desired sizes of ReplicaSets. */
export type Sizes = ReadonlyMap<CachedReplicaSet, number>;

/** Records the Deployment's size on its ReplicaSets, so that a later change is detected. */
export function sizeAnnotations(deployment: CachedDeployment): Record<string, string> {
  const desired = desiredReplicas(deployment);
  return {
    [desiredReplicasAnnotation]: String(desired),
    [maxReplicasAnnotation]: String(desired + rollingBounds(deployment).maxSurge),
  };
}

/** Whether the Deployment was scaled since its ReplicaSets were. Scaling in proportion comes before the rollout. */
export function isScaled(deployment: CachedDeployment, { current, old }: Generations): boolean {
  return active(all(current, old)).some((one) => {
    const recorded = one.metadata.annotations?.[desiredReplicasAnnotation];
    return recorded !== undefined && recorded !== String(desiredReplicas(deployment));
  });
}

/** Sizes after the Deployment was scaled, distributed in proportion during a rollout. */
export function scaleInProportion(deployment: CachedDeployment, generations: Generations): Sizes {
  const { current, old } = generations;
  const desired = desiredReplicas(deployment);
  const running = active(all(current, old));
  if (running.length <= 1) {
    const only = running[0] ?? current ?? old.at(-1);
    return new Map(only === undefined ? [] : [[only, desired]]);
  }
  if (current !== undefined && isSaturated(deployment, current)) {
    return new Map(active(old).map((one) => [one, 0]));
  }
  const strategy = deployment.spec.strategy?.type ?? "RollingUpdate";
  if (strategy !== "RollingUpdate") return new Map();
  const { maxSurge } = rollingBounds(deployment);
  const allowed = desired > 0 ? desired + maxSurge : 0;
  const toAdd = allowed - totalSize(running);
  // The largest first. Among equals, growth goes to the newer and loss to the older.
  const ordered = toAdd >= 0 ? byAge(running).toReversed() : byAge(running);
  const sorted = ordered.toSorted((a, b) => sizeOf(b) - sizeOf(a));
  const sizes = new Map<CachedReplicaSet, number>();
  let added = 0;
  for (const one of sorted) {
    const share = toAdd === 0 ? 0 : bounded(fraction(deployment, one, maxSurge), toAdd - added);
    sizes.set(one, sizeOf(one) + share);
    added += share;
  }
  const largest = sorted[0];
  if (largest !== undefined) sizes.set(largest, Math.max((sizes.get(largest) ?? 0) + toAdd - added, 0));
  return sizes;
}

/** One step of a rolling update: scale up the new ReplicaSet within the surge, else scale down old ones within availability. */
export function rollingStep(deployment: CachedDeployment, { current, old }: Generations): Sizes {
  if (current === undefined) return new Map();
  const desired = desiredReplicas(deployment);
  const { maxSurge, maxUnavailable } = rollingBounds(deployment);
  const size = sizeOf(current);
  const room = Math.max(desired + maxSurge - totalSize([...old, current]), 0);
  const grown = size > desired ? desired : size + Math.min(room, desired - size);
  if (grown !== size) return new Map([[current, grown]]);
  return shrinkOld(current, old, desired - maxUnavailable);
}

function shrinkOld(current: CachedReplicaSet, old: readonly CachedReplicaSet[], minAvailable: number): Sizes {
  const sizes = new Map<CachedReplicaSet, number>();
  const newUnavailable = sizeOf(current) - (current.status?.availableReplicas ?? 0);
  let removable = totalSize([...old, current]) - minAvailable - newUnavailable;
  if (removable <= 0) return sizes;
  // Unavailable Pods cost nothing, so they are removed first.
  for (const one of old) {
    const unhealthy = Math.max(sizeOf(one) - (one.status?.availableReplicas ?? 0), 0);
    const removed = Math.min(unhealthy, removable);
    if (removed > 0) sizes.set(one, sizeOf(one) - removed);
    removable -= removed;
  }
  let surplus = [...old, current].reduce((sum, one) => sum + (one.status?.availableReplicas ?? 0), 0) - minAvailable;
  for (const one of old) {
    const size = sizes.get(one) ?? sizeOf(one);
    const removed = Math.min(size, Math.max(surplus, 0));
    if (removed > 0) sizes.set(one, size - removed);
    surplus -= removed;
  }
  return sizes;
}

function isSaturated(deployment: CachedDeployment, current: CachedReplicaSet): boolean {
  const desired = desiredReplicas(deployment);
  return (
    current.metadata.annotations?.[desiredReplicasAnnotation] === String(desired) &&
    sizeOf(current) === desired &&
    current.status?.availableReplicas === desired
  );
}

function fraction(deployment: CachedDeployment, one: CachedReplicaSet, maxSurge: number): number {
  const desired = desiredReplicas(deployment);
  if (desired === 0) return -sizeOf(one);
  const recorded = Number(one.metadata.annotations?.[maxReplicasAnnotation]);
  const before = Number.isInteger(recorded) && recorded > 0 ? recorded : (deployment.status?.replicas ?? 0);
  return before > 0 ? Math.round((sizeOf(one) * (desired + maxSurge)) / before) - sizeOf(one) : 0;
}

function bounded(share: number, left: number): number {
  return left > 0 ? Math.min(Math.max(share, 0), left) : Math.max(Math.min(share, 0), left);
}

function all(current: CachedReplicaSet | undefined, old: readonly CachedReplicaSet[]): readonly CachedReplicaSet[] {
  return current === undefined ? old : [...old, current];
}

function active(replicaSets: readonly CachedReplicaSet[]): readonly CachedReplicaSet[] {
  return replicaSets.filter((one) => sizeOf(one) > 0);
}
