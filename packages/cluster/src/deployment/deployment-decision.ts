import { controllerReference, draft, getController } from "@keelson/api-machinery";
import { Deployment, ReplicaSet } from "@keelson/api-machinery/kinds";
import { claim, workloadSelector } from "../workload/ownership.ts";
import { isPodTerminal, type CachedPod } from "../workload/pod-state.ts";
import { templateHashLabel } from "../workload/template-hash.ts";
import { eventWrite, type Decision, type Write } from "../workload/write.ts";
import { statusOf } from "./deployment-status.ts";
import {
  desiredReplicas,
  generationsOf,
  type Generations,
  inheritedAnnotations,
  nameOf,
  highestRevision,
  revisionAnnotation,
  revisionHistoryAnnotation,
  revisionOf,
  rollingBounds,
  type CachedDeployment,
  type CachedReplicaSet,
  sizeOf,
  totalSize,
} from "./replica-sets.ts";
import { isScaled, rollingStep, scaleInProportion, sizeAnnotations, type Sizes } from "./scaling.ts";

/** The input of {@link decideDeployment}. */
export interface ObservedDeployment {
  readonly deployment: CachedDeployment;
  /** ReplicaSets of the namespace that this Deployment or no controller owns. */
  readonly replicaSets: readonly CachedReplicaSet[];
  /** Pods of these ReplicaSets. */
  readonly pods: readonly CachedPod[];
}

/**
 * Decides the next step of a Deployment and its status. A step contains one kind of write to the ReplicaSets, because the watch must
 * show its effect before the next one is decided.
 */
export function decideDeployment(observed: ObservedDeployment, now: number): Decision {
  const { deployment, replicaSets } = observed;
  const selector = workloadSelector(deployment.spec.selector);
  const { owned, writes } = claim(deployment, selector, ReplicaSet, replicaSets);
  if (writes.length > 0) return { writes };
  const generations = generationsOf(deployment, owned);
  const steps = deployment.metadata.deletionTimestamp === undefined ? nextStep(observed, generations) : [];
  const { status, isChanged, requeueAfterMs } = statusOf(deployment, generations, now);
  // A write to the Deployment itself outdates this copy: the status follows in the next reconcile.
  const isTouched = steps.some((write) => write.kind === "patch" && write.type === Deployment);
  if (isChanged && !isTouched) {
    return {
      writes: [...steps, { kind: "status", type: Deployment, object: { ...deployment, status } as never }],
      requeueAfterMs,
    };
  }
  return { writes: steps, requeueAfterMs };
}

function nextStep({ deployment, pods }: ObservedDeployment, generations: Generations): readonly Write[] {
  const { current } = generations;
  const revised = revise(deployment, generations);
  if (revised.length > 0) return revised;
  if (deployment.spec.paused || isScaled(deployment, generations)) {
    const scaled = resize(deployment, scaleInProportion(deployment, generations));
    return scaled.length > 0 ? scaled : deployment.spec.paused ? cleanUp(deployment, generations) : [];
  }
  if (deployment.spec.strategy?.type === "Recreate") {
    const old = resize(deployment, new Map(generations.old.filter((one) => sizeOf(one) > 0).map((one) => [one, 0])));
    if (old.length > 0) return old;
    if (isOldRunning(generations, pods)) return [];
    if (current === undefined) return createReplicaSet(deployment, generations, desiredReplicas(deployment));
    const grown = resize(deployment, new Map([[current, desiredReplicas(deployment)]]));
    if (grown.length > 0) return grown;
  } else {
    if (current === undefined) {
      const { maxSurge } = rollingBounds(deployment);
      const room = Math.max(desiredReplicas(deployment) + maxSurge - totalSize(generations.old), 0);
      return createReplicaSet(deployment, generations, Math.min(room, desiredReplicas(deployment)));
    }
    const rolled = resize(deployment, rollingStep(deployment, generations));
    if (rolled.length > 0) return rolled;
  }
  return cleanUp(deployment, generations);
}

/** Updates revision, annotations and minReadySeconds of the current ReplicaSet, and the Deployment's own revision. */
function revise(deployment: CachedDeployment, { current, old }: Generations): readonly Write[] {
  if (current === undefined) return [];
  const highestOld = highestRevision(old);
  const before = revisionOf(current);
  // After a rollback an old template becomes the newest revision.
  const revision = before > highestOld ? before : highestOld + 1n;
  const annotations: Record<string, string> = { ...inheritedAnnotations(deployment), [revisionAnnotation]: String(revision) };
  if (revision !== before && before > 0n) {
    const history = current.metadata.annotations?.[revisionHistoryAnnotation];
    annotations[revisionHistoryAnnotation] = history ? `${history},${before}` : String(before);
  }
  const writes: Write[] = [];
  const minReadySeconds = deployment.spec.minReadySeconds ?? 0;
  const isStale = Object.entries(annotations).some(([key, value]) => current.metadata.annotations?.[key] !== value);
  if (isStale || (current.spec.minReadySeconds ?? 0) !== minReadySeconds) {
    writes.push({
      kind: "patch",
      type: ReplicaSet,
      object: current,
      body: { metadata: { annotations }, spec: { minReadySeconds } },
    });
  }
  if (deployment.metadata.annotations?.[revisionAnnotation] !== String(revision)) {
    const body = { metadata: { annotations: { [revisionAnnotation]: String(revision) } } };
    // Annotations changed through the object itself raise its generation.
    writes.push({ kind: "patch", type: Deployment, object: deployment, body, subresource: "status" });
  }
  return writes;
}

function createReplicaSet(deployment: CachedDeployment, { old, hash }: Generations, replicas: number): readonly Write[] {
  const { namespace } = deployment.metadata;
  const { template, selector, minReadySeconds } = deployment.spec;
  const labels = { ...template.metadata?.labels, [templateHashLabel]: hash };
  const name = nameOf(deployment, hash);
  const revision = String(highestRevision(old) + 1n);
  const object = {
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      labels,
      annotations: { ...inheritedAnnotations(deployment), ...sizeAnnotations(deployment), [revisionAnnotation]: revision },
      ownerReferences: [controllerReference(deployment)],
    },
    spec: {
      replicas,
      ...(minReadySeconds ? { minReadySeconds } : {}),
      selector: { ...draft(selector), matchLabels: { ...selector.matchLabels, [templateHashLabel]: hash } },
      template: { ...draft(template), metadata: { ...draft(template.metadata ?? {}), labels } },
    },
  };
  return [
    { kind: "create", type: ReplicaSet, object },
    ...(replicas > 0
      ? [eventWrite(deployment, "Normal", "ScalingReplicaSet", `Scaled up replica set ${name} from 0 to ${replicas}`)]
      : []),
  ];
}

/**
 * Decides what an existing ReplicaSet with the name of the new one means: either an earlier reconcile created it, or another template
 * has the same hash and `collisionCount` must change the next name.
 */
export function decideCollision(deployment: CachedDeployment, existing: CachedReplicaSet): Decision {
  if (getController(existing)?.uid === deployment.metadata.uid && generationsOf(deployment, [existing]).current)
    return { writes: [] };
  const status = { ...deployment.status, collisionCount: (deployment.status?.collisionCount ?? 0) + 1 };
  return { writes: [{ kind: "status", type: Deployment, object: { ...deployment, status } as never }] };
}

function resize(deployment: CachedDeployment, sizes: Sizes): readonly Write[] {
  const annotations = sizeAnnotations(deployment);
  return [...sizes].flatMap(([object, replicas]): Write[] => {
    const isAnnotated = Object.entries(annotations).every(([key, value]) => object.metadata.annotations?.[key] === value);
    const before = sizeOf(object);
    if (before === replicas && isAnnotated) return [];
    const body = { metadata: { annotations }, spec: { replicas } };
    const patch: Write = { kind: "patch", type: ReplicaSet, object, body };
    if (before === replicas) return [patch];
    const note = `Scaled ${replicas > before ? "up" : "down"} replica set ${object.metadata.name} from ${before} to ${replicas}`;
    return [patch, eventWrite(deployment, "Normal", "ScalingReplicaSet", note)];
  });
}

/** With Recreate, old and new Pods never run together, so terminating Pods count as running. */
function isOldRunning({ old }: Generations, pods: readonly CachedPod[]): boolean {
  const uids = new Set(old.map((one) => one.metadata.uid));
  return (
    old.some((one) => (one.status?.replicas ?? 0) > 0) ||
    pods.some((pod) => !isPodTerminal(pod) && uids.has(getController(pod)?.uid))
  );
}

/** Deletes old ReplicaSets beyond the history limit that are scaled down and observed, oldest revision first. */
function cleanUp(deployment: CachedDeployment, { old, current }: Generations): readonly Write[] {
  const isDone =
    deployment.spec.paused ||
    (current !== undefined &&
      current.status?.availableReplicas === (desiredReplicas(deployment) || undefined) &&
      totalSize(old) === 0);
  const limit = deployment.spec.revisionHistoryLimit ?? 10;
  if (!isDone) return [];
  const kept = old
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .toSorted((a, b) => Number(revisionOf(a) - revisionOf(b)));
  return kept
    .slice(0, Math.max(kept.length - limit, 0))
    .filter((one) => sizeOf(one) === 0 && (one.status?.replicas ?? 0) === 0 && isObserved(one))
    .map((object) => ({ kind: "delete", type: ReplicaSet, object }));
}

function isObserved({ metadata, status }: CachedReplicaSet): boolean {
  return (metadata.generation ?? 0) <= (status?.observedGeneration ?? 0);
}
