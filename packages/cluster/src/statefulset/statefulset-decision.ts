import { jsonEquals } from "@keelson/api-machinery";
import { ControllerRevision, Pod, StatefulSet } from "@keelson/api-machinery/kinds";
import { resolveIntOrPercent } from "../workload/int-or-percent.ts";
import { claim, workloadSelector } from "../workload/ownership.ts";
import { isPodReady, isPodTerminal, isPodTerminating, podAvailableAt, type CachedPod } from "../workload/pod-state.ts";
import type { Claim } from "../workload/cached-objects.ts";
import { eventWrite, type Decision, type Write } from "../workload/write.ts";
import {
  decideHistory,
  revisionLabel,
  type Revisions,
  revisionsOf,
  type CachedRevision,
  templateOf,
} from "../workload/revisions.ts";
import { claimOwners, missingClaims } from "./statefulset-claims.ts";
import { firstOrdinal, ordinalOf, podIndexLabel, podNameLabel, podOf, type CachedStatefulSet } from "./statefulset-pod.ts";

/** The input of {@link decideStatefulSet}. */
export interface ObservedStatefulSet {
  readonly set: CachedStatefulSet;
  /** Pods of the namespace that this StatefulSet or no controller owns. */
  readonly pods: readonly CachedPod[];
  /** Revisions of the namespace that this StatefulSet or no controller owns. */
  readonly revisions: readonly CachedRevision[];
  /** Claims of the namespace. */
  readonly claims: readonly Claim[];
  /** Whether a failed Pod is kept for now. Default: none is. */
  readonly isHeld?: (pod: CachedPod) => boolean;
}

/** A StatefulSet's Pods by ordinal: the desired ones, and the surplus ones (highest ordinal first). */
interface Roster {
  readonly wanted: readonly { readonly ordinal: number; readonly pod: CachedPod | undefined }[];
  readonly condemned: readonly { readonly ordinal: number; readonly pod: CachedPod }[];
}

/** Decides the next step of a StatefulSet and its status. */
export function decideStatefulSet(observed: ObservedStatefulSet, now: number): Decision {
  const { set } = observed;
  const selector = workloadSelector(set.spec.selector);
  // Only Pods with a name of this StatefulSet can belong to it.
  const named = observed.pods.filter((pod) => ordinalOf(set, pod) !== undefined);
  const pods = claim(set, selector, Pod, named);
  const revisionClaims = claim(set, selector, ControllerRevision, observed.revisions);
  const claims = [...pods.writes, ...revisionClaims.writes];
  if (claims.length > 0) return { writes: claims };
  const revisions = revisionsOf(set, revisionClaims.owned);
  const { update } = revisions;
  if (update === undefined || revisions.writes.length > 0) return { writes: revisions.writes };
  const minReadyMs = (set.spec.minReadySeconds ?? 0) * 1_000;
  const steps =
    set.metadata.deletionTimestamp === undefined ? nextStep(observed, rosterOf(set, pods.owned), revisions, now) : [];
  const history = steps.length === 0 ? decideHistory(set, revisionClaims.owned, revisions, pods.owned) : [];
  const status = statusOf(set, pods.owned, revisions, now);
  const statusWrites: readonly Write[] = jsonEquals(set.status, status)
    ? []
    : [{ kind: "status", type: StatefulSet, object: { ...set, status } as never }];
  return {
    writes: [...steps, ...history, ...statusWrites],
    requeueAfterMs: minReadyMs > 0 ? nextAvailable(set, pods.owned, now) : undefined,
  };
}

function rosterOf(set: CachedStatefulSet, pods: readonly CachedPod[]): Roster {
  const start = firstOrdinal(set);
  const replicas = set.spec.replicas ?? 1;
  const byOrdinal = new Map(pods.map((pod) => [ordinalOf(set, pod) ?? -1, pod]));
  const wanted = Array.from({ length: replicas }, (_, index) => ({
    ordinal: start + index,
    pod: byOrdinal.get(start + index),
  }));
  const condemned = [...byOrdinal]
    .filter(([ordinal]) => ordinal < start || ordinal >= start + replicas)
    .map(([ordinal, pod]) => ({ ordinal, pod }))
    .toSorted((a, b) => b.ordinal - a.ordinal);
  return { wanted, condemned };
}

function nextStep(
  { set, claims, isHeld }: ObservedStatefulSet,
  { wanted, condemned }: Roster,
  revisions: Revisions,
  now: number,
): readonly Write[] {
  const isOrdered = set.spec.podManagementPolicy !== "Parallel";
  const isAvailable = (pod: CachedPod): boolean =>
    isHealthy(pod) && (podAvailableAt(pod, set.spec.minReadySeconds ?? 0) ?? now + 1) <= now;
  const writes: Write[] = [];
  for (const { ordinal, pod } of wanted) {
    const isKept = pod?.status?.phase === "Failed" && !isPodTerminating(pod) && isHeld?.(pod) === true;
    const writesOfOne = isKept ? [] : stepOf(set, ordinal, pod, claims, revisions);
    writes.push(...writesOfOne);
    // Ordered: each Pod must be available before the next is touched.
    if (isOrdered && (writesOfOne.some(({ kind }) => kind !== "patch") || pod === undefined || !isAvailable(pod)))
      return writes;
  }
  const firstUnhealthy = [...wanted.map(({ pod }) => pod), ...condemned.map(({ pod }) => pod).toReversed()].find(
    (pod) => pod !== undefined && !isHealthy(pod),
  );
  for (const { ordinal, pod } of condemned) {
    if (!isPodTerminating(pod)) {
      // An ordered StatefulSet scales down only while all others are healthy; the first unhealthy Pod itself may be deleted.
      if (isOrdered && !isAvailable(pod) && pod !== firstUnhealthy) return writes;
      writes.push(...claimOwners(set, ordinal, claims, pod));
      writes.push({ kind: "delete", type: Pod, object: pod, owner: set });
    }
    if (isOrdered) return writes;
  }
  if (writes.some(({ kind }) => kind !== "patch")) return writes;
  return [...writes, ...updateStep(set, wanted, revisions, isAvailable)];
}

function stepOf(
  set: CachedStatefulSet,
  ordinal: number,
  pod: CachedPod | undefined,
  claims: readonly Claim[],
  revisions: Revisions,
): readonly Write[] {
  const owners = claimOwners(set, ordinal, claims, undefined);
  if (pod === undefined) {
    const own = revisionFor(set, ordinal, revisions);
    if (own === undefined) return owners;
    const object = podOf(set, templateOf(own), own.metadata.name ?? "", ordinal);
    // Claims come before the Pod, which could not be scheduled without them.
    return [...owners, ...missingClaims(set, ordinal, claims), { kind: "create", type: Pod, object, owner: set }];
  }
  if (isPodTerminating(pod)) return owners;
  if (isPodTerminal(pod)) {
    const { namespace, name } = pod.metadata;
    const note = `StatefulSet ${namespace}/${set.metadata.name} is recreating failed Pod ${name}`;
    return [
      ...owners,
      eventWrite(set, "Warning", "RecreatingFailedPod", note),
      { kind: "delete", type: Pod, object: pod, owner: set },
    ];
  }
  const missing = pod.status?.phase === "Running" ? [] : missingClaims(set, ordinal, claims);
  return [...owners, ...missing, ...identity(ordinal, pod)];
}

/** Restores the labels that identify a Pod. */
function identity(ordinal: number, pod: CachedPod): readonly Write[] {
  const labels = { [podNameLabel]: pod.metadata.name ?? "", [podIndexLabel]: String(ordinal) };
  const isSame = Object.entries(labels).every(([key, value]) => pod.metadata.labels?.[key] === value);
  return isSame ? [] : [{ kind: "patch", type: Pod, object: pod, body: { metadata: { labels } } }];
}

/** Ordinals below the partition keep the current revision. */
function revisionFor(set: CachedStatefulSet, ordinal: number, { current, update }: Revisions): CachedRevision | undefined {
  const { type, rollingUpdate } = set.spec.updateStrategy ?? {};
  const isKept = type !== "OnDelete" && ordinal < firstOrdinal(set) + (rollingUpdate?.partition ?? 0);
  return isKept ? current : update;
}

/** A rolling update deletes from the highest ordinal down, at most maxUnavailable Pods at the same time. */
function updateStep(
  set: CachedStatefulSet,
  wanted: Roster["wanted"],
  { update }: Revisions,
  isAvailable: (pod: CachedPod) => boolean,
): readonly Write[] {
  const { type, rollingUpdate } = set.spec.updateStrategy ?? {};
  if (type === "OnDelete") return [];
  const partition = rollingUpdate?.partition ?? 0;
  const replicas = set.spec.replicas ?? 1;
  const maxUnavailable = Math.max(resolveIntOrPercent(rollingUpdate?.maxUnavailable ?? 1, replicas, "up"), 1);
  let room = maxUnavailable - wanted.filter(({ pod }) => pod === undefined || !isAvailable(pod)).length;
  const writes: Write[] = [];
  for (const { pod } of wanted.slice(partition).toReversed()) {
    if (pod === undefined || isPodTerminating(pod)) {
      if (room <= 0) return writes;
      continue;
    }
    if (pod.metadata.labels?.[revisionLabel] !== update?.metadata.name) {
      // Replacing an unavailable Pod costs nothing, but higher ordinals come first.
      if (isAvailable(pod) && room <= 0) return writes;
      if (isAvailable(pod)) room--;
      writes.push({ kind: "delete", type: Pod, object: pod, owner: set });
    } else if (!isAvailable(pod) && room <= 0) {
      return writes;
    }
  }
  return writes;
}

function isHealthy(pod: CachedPod): boolean {
  return pod.status?.phase === "Running" && isPodReady(pod) && !isPodTerminating(pod);
}

function statusOf(
  set: CachedStatefulSet,
  pods: readonly CachedPod[],
  { current, update }: Revisions,
  now: number,
): CachedStatefulSet["status"] {
  const existing = pods.filter((pod) => !isPodTerminal(pod));
  const count = (holds: (pod: CachedPod) => boolean): number => existing.filter(holds).length;
  const minReadySeconds = set.spec.minReadySeconds ?? 0;
  const ready = count((pod) => pod.status?.phase === "Running" && isPodReady(pod));
  const available = count((pod) => pod.status?.phase === "Running" && (podAvailableAt(pod, minReadySeconds) ?? now + 1) <= now);
  const isOf = (revision: CachedRevision | undefined) => (pod: CachedPod) =>
    !isPodTerminating(pod) && pod.metadata.labels?.[revisionLabel] === revision?.metadata.name;
  const updated = count(isOf(update));
  const replicas = existing.length;
  // A rollout ends when every Pod has the new revision and is ready. That revision becomes the current one.
  const isDone =
    set.spec.updateStrategy?.type !== "OnDelete" &&
    updated === replicas &&
    ready === replicas &&
    updated === (set.spec.replicas ?? 1);
  const settled = isDone ? update : current;
  const currentCount = count(isOf(settled));
  return {
    observedGeneration: set.metadata.generation ?? 0,
    replicas,
    ...(ready > 0 ? { readyReplicas: ready } : {}),
    availableReplicas: available,
    ...(currentCount > 0 ? { currentReplicas: currentCount } : {}),
    ...(updated > 0 ? { updatedReplicas: updated } : {}),
    currentRevision: settled?.metadata.name ?? "",
    updateRevision: update?.metadata.name ?? "",
    collisionCount: set.status?.collisionCount ?? 0,
  };
}

function nextAvailable(set: CachedStatefulSet, pods: readonly CachedPod[], now: number): number | undefined {
  const waits = pods
    .map((pod) => podAvailableAt(pod, set.spec.minReadySeconds ?? 0))
    .filter((at) => at !== undefined && at > now)
    .map((at) => (at ?? now) - now);
  return waits.length > 0 ? Math.min(...waits) : undefined;
}
