import {
  byAge,
  desiredReplicas,
  desiredReplicasAnnotation,
  type Generations,
  maxReplicasAnnotation,
  rollingBounds,
  type SeenDeployment,
  type SeenReplicaSet,
  sizeOf,
  totalSize,
} from "./replica-sets.ts";

/** The sizes that ReplicaSets are to have. */
export type Sizes = ReadonlyMap<SeenReplicaSet, number>;

/** What a ReplicaSet is told of its Deployment's size, so that a change of that is seen. */
export function sizeAnnotations(deployment: SeenDeployment): Record<string, string> {
  const desired = desiredReplicas(deployment);
  return {
    [desiredReplicasAnnotation]: String(desired),
    [maxReplicasAnnotation]: String(desired + rollingBounds(deployment).maxSurge),
  };
}

/** Whether the Deployment has been scaled since its ReplicaSets were: they go first in proportion, and then the rollout on. */
export function isScaled(deployment: SeenDeployment, { current, old }: Generations): boolean {
  return active(all(current, old)).some((one) => {
    const told = one.metadata.annotations?.[desiredReplicasAnnotation];
    return told !== undefined && told !== String(desiredReplicas(deployment));
  });
}

/** The sizes after the Deployment was scaled: shared out in proportion where a rollout is under way. */
export function scaleInProportion(deployment: SeenDeployment, generations: Generations): Sizes {
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
  // The largest first; of equals, growth goes to the newer and loss to the older.
  const ordered = toAdd >= 0 ? byAge(running).toReversed() : byAge(running);
  const sorted = ordered.toSorted((a, b) => sizeOf(b) - sizeOf(a));
  const sizes = new Map<SeenReplicaSet, number>();
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

/** One step of a rolling update: the new one grows as far as the surge allows, the old ones shrink as far as availability does. */
export function rollingStep(deployment: SeenDeployment, { current, old }: Generations): Sizes {
  if (current === undefined) return new Map();
  const desired = desiredReplicas(deployment);
  const { maxSurge, maxUnavailable } = rollingBounds(deployment);
  const size = sizeOf(current);
  const room = Math.max(desired + maxSurge - totalSize([...old, current]), 0);
  const grown = size > desired ? desired : size + Math.min(room, desired - size);
  if (grown !== size) return new Map([[current, grown]]);
  return shrinkOld(current, old, desired - maxUnavailable);
}

function shrinkOld(current: SeenReplicaSet, old: readonly SeenReplicaSet[], minAvailable: number): Sizes {
  const sizes = new Map<SeenReplicaSet, number>();
  const newUnavailable = sizeOf(current) - (current.status?.availableReplicas ?? 0);
  let mayGo = totalSize([...old, current]) - minAvailable - newUnavailable;
  if (mayGo <= 0) return sizes;
  // Pods that are not available cost nothing: they go first.
  for (const one of old) {
    const unhealthy = Math.max(sizeOf(one) - (one.status?.availableReplicas ?? 0), 0);
    const gone = Math.min(unhealthy, mayGo);
    if (gone > 0) sizes.set(one, sizeOf(one) - gone);
    mayGo -= gone;
  }
  let surplus = [...old, current].reduce((sum, one) => sum + (one.status?.availableReplicas ?? 0), 0) - minAvailable;
  for (const one of old) {
    const size = sizes.get(one) ?? sizeOf(one);
    const gone = Math.min(size, Math.max(surplus, 0));
    if (gone > 0) sizes.set(one, size - gone);
    surplus -= gone;
  }
  return sizes;
}

function isSaturated(deployment: SeenDeployment, current: SeenReplicaSet): boolean {
  const desired = desiredReplicas(deployment);
  return (
    current.metadata.annotations?.[desiredReplicasAnnotation] === String(desired) &&
    sizeOf(current) === desired &&
    current.status?.availableReplicas === desired
  );
}

function fraction(deployment: SeenDeployment, one: SeenReplicaSet, maxSurge: number): number {
  const desired = desiredReplicas(deployment);
  if (desired === 0) return -sizeOf(one);
  const told = Number(one.metadata.annotations?.[maxReplicasAnnotation]);
  const before = Number.isInteger(told) && told > 0 ? told : (deployment.status?.replicas ?? 0);
  return before > 0 ? Math.round((sizeOf(one) * (desired + maxSurge)) / before) - sizeOf(one) : 0;
}

function bounded(share: number, left: number): number {
  return left > 0 ? Math.min(Math.max(share, 0), left) : Math.max(Math.min(share, 0), left);
}

function all(current: SeenReplicaSet | undefined, old: readonly SeenReplicaSet[]): readonly SeenReplicaSet[] {
  return current === undefined ? old : [...old, current];
}

function active(replicaSets: readonly SeenReplicaSet[]): readonly SeenReplicaSet[] {
  return replicaSets.filter((one) => sizeOf(one) > 0);
}
