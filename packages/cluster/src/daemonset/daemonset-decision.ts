import { jsonEquals } from "@keelson/api-machinery";
import { ControllerRevision, DaemonSet, Pod } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import { resolveIntOrPercent } from "../workload/int-or-percent.ts";
import { claim, workloadSelector } from "../workload/ownership.ts";
import { type CachedPod, isPodReady, isPodTerminating, podAvailableAt } from "../workload/pod-state.ts";
import { type CachedRevision, decideHistory, revisionLabel, revisionsOf } from "../workload/revisions.ts";
import { type Cached, type Decision, eventWrite, type Write } from "../workload/write.ts";
import { type CachedDaemonSet, type CachedNode, daemonPod, fitOf, nodeOf } from "./daemonset-pod.ts";

/** Limits Pods created or deleted in one reconcile, as in kube-controller-manager. */
const maxBurst = 250;

/** The input of {@link decideDaemonSet}. */
export interface ObservedDaemonSet {
  readonly set: CachedDaemonSet;
  readonly nodes: readonly CachedNode[];
  /** Pods of the namespace that this DaemonSet or no controller owns. */
  readonly pods: readonly CachedPod[];
  /** Revisions of the namespace that this DaemonSet or no controller owns. */
  readonly revisions: readonly CachedRevision[];
  /** Whether a failed Pod is kept for now. Default: none is. */
  readonly isHeld?: (pod: CachedPod) => boolean;
}

/** The Pods of a DaemonSet on one node. */
interface NodePods {
  readonly node: CachedNode;
  readonly pods: readonly CachedPod[];
  /** Those that have ended and are to be replaced now. */
  readonly ended: readonly CachedPod[];
  readonly shouldRun: boolean;
  readonly shouldStay: boolean;
}

/** Decides the next step of a DaemonSet (Pods to create and delete on its nodes, rolling update) and its status. */
export function decideDaemonSet(observed: ObservedDaemonSet, now: number): Decision {
  const { set } = observed;
  const selector = workloadSelector(set.spec.selector);
  const pods = claim(set, selector, Pod, observed.pods);
  const owned = claim(set, selector, ControllerRevision, observed.revisions);
  const claims = [...pods.writes, ...owned.writes];
  if (claims.length > 0) return { writes: claims };
  const revisions = revisionsOf(set, owned.owned, revisionLabel);
  const hash = revisions.update?.metadata.labels?.[revisionLabel];
  if (hash === undefined || revisions.writes.length > 0) return { writes: revisions.writes };
  const nodes = podsByNode(observed, pods.owned);
  const steps = set.metadata.deletionTimestamp === undefined ? nextStep(set, nodes, pods.owned, hash, now) : [];
  const labelOf = ({ metadata }: CachedRevision): string | undefined => metadata.labels?.[revisionLabel];
  const history = steps.length === 0 ? decideHistory(set, owned.owned, revisions, pods.owned, labelOf) : [];
  const status = statusOf(set, nodes, hash, now);
  const statusWrites: readonly Write[] = jsonEquals(set.status, status)
    ? []
    : [{ kind: "status", type: DaemonSet, object: { ...set, status } as Cached }];
  return { writes: [...steps, ...history, ...statusWrites], requeueAfterMs: nextAvailable(set, pods.owned, now) };
}

function podsByNode({ set, nodes, isHeld }: ObservedDaemonSet, owned: readonly CachedPod[]): readonly NodePods[] {
  return nodes.map((node) => {
    const pods = owned.filter((pod) => nodeOf(pod) === node.metadata.name);
    const ended = pods.filter(
      (pod) => isEnded(pod) && !isPodTerminating(pod) && !(pod.status?.phase === "Failed" && isHeld?.(pod)),
    );
    return { node, pods, ended, ...fitOf(set, node) };
  });
}

function nextStep(
  set: CachedDaemonSet,
  nodes: readonly NodePods[],
  owned: readonly CachedPod[],
  hash: string,
  now: number,
): readonly Write[] {
  const manage = managePods(set, nodes, owned, hash, now);
  // A rolling update starts from a settled state: what it deletes is replaced by the next reconcile.
  if (manage.some(({ kind }) => kind === "create" || kind === "delete")) return manage;
  return [...manage, ...(set.spec.updateStrategy?.type === "OnDelete" ? [] : rollingUpdate(set, nodes, hash, now))];
}

function managePods(
  set: CachedDaemonSet,
  nodes: readonly NodePods[],
  owned: readonly CachedPod[],
  hash: string,
  now: number,
): readonly Write[] {
  const { maxSurge } = boundsOf(set, nodes);
  const events: Write[] = [];
  const creations: Write[] = [];
  const deletions: CachedPod[] = [];
  for (const { node, pods, ended, shouldRun, shouldStay } of nodes) {
    const { name = "" } = node.metadata;
    if (!shouldStay) deletions.push(...pods.filter((pod) => !isPodTerminating(pod)));
    else {
      events.push(...ended.map((pod) => endedEvent(set, pod, name)));
      deletions.push(...ended);
      const running = pods.filter((pod) => !isEnded(pod) && !isPodTerminating(pod));
      deletions.push(...surplusOf(set, running, hash, maxSurge, now));
      if (shouldRun && pods.length === 0) creations.push(createPod(set, name, hash));
    }
  }
  // Pods of nodes that do not exist are deleted by the Pod garbage collector; unbound ones have no other way to end.
  const names = new Set(nodes.map(({ node }) => node.metadata.name));
  deletions.push(...owned.filter((pod) => !pod.spec.nodeName && !isPodTerminating(pod) && !names.has(nodeOf(pod))));
  return [
    ...events,
    ...creations.slice(0, maxBurst),
    ...deletions.slice(0, maxBurst).map((object): Write => ({ kind: "delete", type: Pod, object, owner: set })),
  ];
}

/** With a surge, an available old Pod runs alongside the new one until that is available. Otherwise the oldest Pod stays. */
function surplusOf(
  set: CachedDaemonSet,
  running: readonly CachedPod[],
  hash: string,
  maxSurge: number,
  now: number,
): readonly CachedPod[] {
  if (running.length <= 1) return [];
  const sorted = running.toSorted((a, b) => createdAt(a) - createdAt(b));
  if (maxSurge === 0) return sorted.slice(1);
  const updated = sorted.filter((pod) => isUpdated(pod, hash));
  const old = sorted.filter((pod) => !isUpdated(pod, hash));
  const isDone = updated.some((pod) => isAvailable(set, pod, now)) || !old.some((pod) => isAvailable(set, pod, now));
  return [...updated.slice(1), ...(isDone ? old : old.slice(1))].slice(0, running.length - 1);
}

/** Replaces Pods of old revisions: unavailable ones first, then as many as may be unavailable, or surge. */
function rollingUpdate(set: CachedDaemonSet, nodes: readonly NodePods[], hash: string, now: number): readonly Write[] {
  const { maxUnavailable, maxSurge } = boundsOf(set, nodes);
  const desired = nodes.filter(({ shouldRun }) => shouldRun);
  const states = desired.map(({ node, pods }) => {
    const running = pods.filter((pod) => !isPodTerminating(pod) && !isEnded(pod));
    const old = running.find((pod) => !isUpdated(pod, hash));
    const updated = running.find((pod) => isUpdated(pod, hash));
    const isServed = running.some((pod) => isAvailable(set, pod, now));
    return { name: node.metadata.name ?? "", old, updated, isServed };
  });
  const outdated = states.filter(({ old, updated }) => old !== undefined && updated === undefined);
  if (maxSurge > 0) {
    const surging = states.filter(({ old, updated }) => old !== undefined && updated !== undefined).length;
    const first = outdated.toSorted((a, b) => Number(a.isServed) - Number(b.isServed));
    return first.slice(0, Math.max(maxSurge - surging, 0)).map(({ name }) => createPod(set, name, hash));
  }
  const unavailable = states.filter(({ isServed }) => !isServed).length;
  const replaceable = outdated.filter(({ isServed }) => !isServed);
  const served = outdated.filter(({ isServed }) => isServed).slice(0, Math.max(maxUnavailable - unavailable, 0));
  return [...replaceable, ...served].flatMap(({ old }): readonly Write[] =>
    old === undefined ? [] : [{ kind: "delete", type: Pod, object: old, owner: set }],
  );
}

function boundsOf(
  set: CachedDaemonSet,
  nodes: readonly NodePods[],
): { readonly maxUnavailable: number; readonly maxSurge: number } {
  if (set.spec.updateStrategy?.type === "OnDelete") return { maxUnavailable: 0, maxSurge: 0 };
  const desired = nodes.filter(({ shouldRun }) => shouldRun).length;
  const { maxUnavailable = 1, maxSurge = 0 } = set.spec.updateStrategy?.rollingUpdate ?? {};
  const surge = resolveIntOrPercent(maxSurge, desired, "up");
  return { maxSurge: surge, maxUnavailable: surge > 0 ? 0 : Math.max(resolveIntOrPercent(maxUnavailable, desired, "up"), 1) };
}

function createPod(set: CachedDaemonSet, nodeName: string, hash: string): Write {
  return { kind: "create", type: Pod, object: daemonPod(set, nodeName, hash), owner: set };
}

function endedEvent(set: CachedDaemonSet, { metadata, status }: CachedPod, nodeName: string): Write {
  const isFailed = status?.phase === "Failed";
  const pod = `${isFailed ? "failed" : "succeeded"} daemon pod ${metadata.namespace}/${metadata.name} on node ${nodeName}`;
  const [type, reason, action] = isFailed
    ? (["Warning", "FailedDaemonPod", "kill"] as const)
    : (["Normal", "SucceededDaemonPod", "delete"] as const);
  return eventWrite(set, type, reason, `Found ${pod}, will try to ${action} it`);
}

function statusOf(set: CachedDaemonSet, nodes: readonly NodePods[], hash: string, now: number): CachedDaemonSet["status"] {
  const desired = nodes.filter(({ shouldRun }) => shouldRun);
  const newest = desired.flatMap(({ pods }) => {
    const sorted = pods.toSorted((a, b) => Number(isPodReady(b)) - Number(isPodReady(a)) || createdAt(a) - createdAt(b));
    return sorted[0] === undefined ? [] : [{ shown: sorted[0], all: sorted }];
  });
  const available = newest.filter(({ shown }) => isPodReady(shown) && isAvailable(set, shown, now)).length;
  const updated = newest.filter(({ all }) => all.some((pod) => isUpdated(pod, hash))).length;
  const unavailable = desired.length - available;
  const { collisionCount } = set.status ?? {};
  return {
    currentNumberScheduled: newest.length,
    numberMisscheduled: nodes.filter(({ shouldRun, pods }) => !shouldRun && pods.length > 0).length,
    desiredNumberScheduled: desired.length,
    numberReady: newest.filter(({ shown }) => isPodReady(shown)).length,
    observedGeneration: set.metadata.generation ?? 0,
    ...(updated > 0 ? { updatedNumberScheduled: updated } : {}),
    ...(available > 0 ? { numberAvailable: available } : {}),
    ...(unavailable > 0 ? { numberUnavailable: unavailable } : {}),
    ...(collisionCount === undefined ? {} : { collisionCount }),
  };
}

function isEnded({ status }: CachedPod): boolean {
  return status?.phase === "Failed" || status?.phase === "Succeeded";
}

function isUpdated({ metadata }: CachedPod, hash: string): boolean {
  return metadata.labels?.[revisionLabel] === hash;
}

function isAvailable(set: CachedDaemonSet, pod: CachedPod, now: number): boolean {
  return !isPodTerminating(pod) && (podAvailableAt(pod, set.spec.minReadySeconds ?? 0) ?? now + 1) <= now;
}

function createdAt({ metadata }: CachedPod): number {
  return parseTime(metadata.creationTimestamp ?? "") ?? 0;
}

function nextAvailable(set: CachedDaemonSet, pods: readonly CachedPod[], now: number): number | undefined {
  const waits = pods.flatMap((pod) => {
    const at = podAvailableAt(pod, set.spec.minReadySeconds ?? 0);
    return at !== undefined && at > now ? [at - now] : [];
  });
  return waits.length > 0 ? Math.min(...waits) : undefined;
}
