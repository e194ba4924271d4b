import { findCondition } from "@keelson/api-machinery";
import type { NodeObject, PersistentVolumeObject, StorageClassObject } from "@keelson/api-machinery/kinds";
import { isPodTerminal, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import type { Claim } from "../workload/cached-objects.ts";
import type { Cached } from "../workload/write.ts";
import { NodePods } from "./node-pods.ts";
import { awaitsVictims, findPreemption, mayPreempt } from "./preemption.ts";
import { addPod, freeShare, loadOf, type Misfit, misfitsOf, type NodeLoad } from "./node-fit.ts";
import { WorkMeter } from "./work-meter.ts";

/** The input of {@link schedule}. */
export interface ObservedPods {
  readonly nodes: readonly Cached<NodeObject>[];
  /** All Pods, pending and bound. */
  readonly pods: readonly CachedPod[];
  readonly claims: readonly Claim[];
  readonly classes: readonly Cached<StorageClassObject>[];
  readonly volumes: readonly Cached<PersistentVolumeObject>[];
  /** Node names by uid of Pods that were bound, until the cache shows it. */
  readonly assumed: ReadonlyMap<string, string>;
}

/** The outcome for a pending Pod. */
export type Placement =
  | { readonly kind: "bind"; readonly pod: CachedPod; readonly node: string }
  /** A claim waits for its first consumer: the node is selected, the volume is provisioned, then the Pod is bound. */
  | { readonly kind: "select-node"; readonly pod: CachedPod; readonly node: string; readonly claims: readonly Claim[] }
  /** Pods of lower priority are deleted to make room. */
  | {
      readonly kind: "preempt";
      readonly pod: CachedPod;
      readonly node: string;
      readonly victims: readonly CachedPod[];
      readonly message: string;
    }
  | { readonly kind: "fail"; readonly pod: CachedPod; readonly message: string };

/** Annotation of a claim: the node of its first consumer. */
export const selectedNodeAnnotation = "volume.kubernetes.io/selected-node";

/** Whether the Pod is pending for this scheduler. */
export function isPending(pod: CachedPod): boolean {
  const { nodeName, schedulerName = "default-scheduler", schedulingGates = [] } = pod.spec;
  if (nodeName || schedulerName !== "default-scheduler" || schedulingGates.length > 0) return false;
  return !isPodTerminal(pod) && !isPodTerminating(pod);
}

/** Schedules every pending Pod, by priority and then by age. Each placement counts for the next one. */
export function schedule(observed: ObservedPods): readonly Placement[] {
  const steps = scheduleInSteps(observed);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** {@link schedule} in steps: a user can create thousands of pending Pods. A step ends after a number of examined nodes and Pods. */
export function* scheduleInSteps(observed: ObservedPods): Generator<undefined, readonly Placement[], void> {
  const { nodes, pods, assumed } = observed;
  const nodeOf = (pod: CachedPod): string | undefined => pod.spec.nodeName || assumed.get(pod.metadata.uid ?? "");
  const pending = pods.filter((pod) => isPending(pod) && nodeOf(pod) === undefined).toSorted(byUrgency);
  if (pending.length === 0) return [];
  const work = new WorkMeter();
  const loads = new Map(
    nodes
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map((node) => [node.metadata.name ?? "", loadOf(node, [])]),
  );
  const onNode = new Map<string, NodePods>();
  for (const pod of pods) {
    const name = nodeOf(pod);
    // A terminating Pod holds its resources until it is deleted.
    if (name === undefined || isPodTerminal(pod)) continue;
    if (work.endsStep()) yield;
    const load = loads.get(name);
    if (load !== undefined) occupy(onNode, load, pod);
  }
  const claims = new Map(observed.claims.map((claim) => [claimKey(claim.metadata.namespace, claim.metadata.name), claim]));
  const round: Round = { loads: [...loads.values()], onNode, claims, classes: observed.classes, work };
  const placements: Placement[] = [];
  for (const pod of pending) {
    if (work.endsStep()) yield;
    placements.push(...(yield* placePod(pod, round)));
  }
  return placements;
}

const claimKey = (namespace = "", name = ""): string => `${namespace}/${name}`;

/** The nodes with the Pods that occupy them, including those placed in this round. */
interface Round {
  readonly loads: readonly NodeLoad[];
  readonly onNode: Map<string, NodePods>;
  /** By namespace and name. */
  readonly claims: ReadonlyMap<string, Claim>;
  readonly classes: ObservedPods["classes"];
  readonly work: WorkMeter;
}

function* placePod(pod: CachedPod, round: Round): Generator<undefined, readonly Placement[], void> {
  const { loads, onNode, work } = round;
  const fail = (message: string): readonly Placement[] => [{ kind: "fail", pod, message }];
  if (loads.length === 0) return fail("no nodes available to schedule pods");
  const { problem, unbound } = claimsOf(pod, round);
  if (problem !== undefined) return fail(`0/${loads.length} nodes are available: ${problem}. ${notHelpful(loads.length)}`);
  const misfits: (readonly Misfit[])[] = [];
  for (const load of loads) {
    if (work.endsStep()) yield;
    misfits.push(misfitsOf(pod, load));
  }
  const fitting = loads.filter((_, index) => misfits[index]?.length === 0);
  if (fitting.length === 0) return [yield* makeRoom(pod, misfits, round)];
  const selected = unbound.map((claim) => claim.metadata.annotations?.[selectedNodeAnnotation]).find((name) => name);
  const chosen = fitting.find(({ node }) => node.metadata.name === selected) ?? (yield* freest(pod, fitting, work));
  if (chosen === undefined) return [];
  const node = chosen.node.metadata.name ?? "";
  // A Pod that waits for its volume already holds its resources.
  occupy(onNode, chosen, pod);
  if (unbound.length === 0) return [{ kind: "bind", pod, node }];
  const claims = unbound.filter((claim) => claim.metadata.annotations?.[selectedNodeAnnotation] !== node);
  return claims.length === 0 ? [] : [{ kind: "select-node", pod, node, claims }];
}

/** The node with the largest free share, and among equals with the fewest Pods. */
function* freest(
  pod: CachedPod,
  fitting: readonly NodeLoad[],
  work: WorkMeter,
): Generator<undefined, NodeLoad | undefined, void> {
  let best: { readonly load: NodeLoad; readonly share: number } | undefined;
  for (const load of fitting) {
    if (work.endsStep()) yield;
    const share = freeShare(pod, load);
    if (best === undefined || share > best.share || (share === best.share && load.pods < best.load.pods))
      best = { load, share };
  }
  return best?.load;
}

function occupy(onNode: Map<string, NodePods>, load: NodeLoad, pod: CachedPod): void {
  addPod(load, pod);
  const name = load.node.metadata.name ?? "";
  const pods = onNode.get(name) ?? new NodePods();
  onNode.set(name, pods);
  pods.add(pod);
}

/** Preempts Pods of lower priority for a Pod that fits no node, or says why it cannot. */
function* makeRoom(
  pod: CachedPod,
  misfits: readonly (readonly Misfit[])[],
  round: Round,
): Generator<undefined, Placement, void> {
  const { loads, onNode } = round;
  const why = reasonsOf(misfits);
  const nominated = loads.find(({ node }) => node.metadata.name === pod.status?.nominatedNodeName);
  if (nominated !== undefined && awaitsVictims(pod, onNode)) {
    // Pods of lower priority must not take the room in the meantime.
    occupy(onNode, nominated, pod);
    return { kind: "fail", pod, message: `${why} preemption: not eligible due to a terminating pod on the nominated node.` };
  }
  if (!mayPreempt(pod)) {
    return { kind: "fail", pod, message: `${why} preemption: not eligible due to preemptionPolicy=Never.` };
  }
  const preemption = yield* findPreemption(pod, loads, misfits, round);
  if (preemption === undefined) return { kind: "fail", pod, message: explain(misfits) };
  const load = loads.find(({ node }) => node.metadata.name === preemption.node);
  if (load !== undefined) occupy(onNode, load, pod);
  return { kind: "preempt", pod, ...preemption, message: why };
}

/** The unbound claims that wait for the Pod as first consumer, or the problem with a claim. */
function claimsOf(
  pod: CachedPod,
  { claims, classes }: Pick<Round, "claims" | "classes">,
): { readonly problem?: string; readonly unbound: readonly Claim[] } {
  const unbound: Claim[] = [];
  for (const name of claimNames(pod)) {
    const claim = claims.get(claimKey(pod.metadata.namespace, name));
    if (claim === undefined) return { problem: `persistentvolumeclaim ${JSON.stringify(name)} not found`, unbound };
    if (claim.metadata.deletionTimestamp !== undefined) {
      return { problem: `persistentvolumeclaim ${JSON.stringify(name)} is being deleted`, unbound };
    }
    if (claim.status?.phase === "Lost")
      return {
        problem: `persistentvolumeclaim ${JSON.stringify(name)} bound to non-existent persistentvolume ${JSON.stringify(claim.spec?.volumeName ?? "")}`,
        unbound,
      };
    if (claim.spec?.volumeName && claim.status?.phase === "Bound") continue;
    const mode = classes.find(({ metadata }) => metadata.name === claim.spec?.storageClassName)?.volumeBindingMode;
    if (mode !== "WaitForFirstConsumer") return { problem: "pod has unbound immediate PersistentVolumeClaims", unbound };
    unbound.push(claim);
  }
  return { unbound };
}

/** The names of the claims that a Pod uses. */
export function claimNames(pod: CachedPod): readonly string[] {
  return (pod.spec.volumes ?? []).flatMap((volume) => {
    if (volume.persistentVolumeClaim !== undefined) return [volume.persistentVolumeClaim.claimName];
    return "ephemeral" in volume ? [`${pod.metadata.name}-${volume.name}`] : [];
  });
}

function reasonsOf(misfits: readonly (readonly Misfit[])[]): string {
  const counts = new Map<string, number>();
  for (const { reason } of misfits.flat()) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const reasons = [...counts].map(([reason, count]) => `${count} ${reason}`).toSorted();
  return `0/${misfits.length} nodes are available: ${reasons.join(", ")}.`;
}

function explain(misfits: readonly (readonly Misfit[])[]): string {
  const total = misfits.length;
  const permanent = misfits.filter((one) => one.some(({ isPermanent }) => isPermanent)).length;
  const preemption = [
    ...(permanent < total ? [`${total - permanent} No preemption victims found for incoming pod`] : []),
    ...(permanent > 0 ? [`${permanent} Preemption is not helpful for scheduling`] : []),
  ];
  return `${reasonsOf(misfits)} preemption: 0/${total} nodes are available: ${preemption.join(", ")}.`;
}

function notHelpful(total: number): string {
  return `preemption: 0/${total} nodes are available: ${total} Preemption is not helpful for scheduling.`;
}

function byUrgency(a: CachedPod, b: CachedPod): number {
  // The server writes every time in the same format, whose order is that of the times.
  const [older, younger] = [a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? ""];
  return (b.spec.priority ?? 0) - (a.spec.priority ?? 0) || (older < younger ? -1 : older > younger ? 1 : 0);
}

/** Whether the Pod's status already shows this message. */
export function isReported(pod: CachedPod, message: string): boolean {
  const conditions = (pod.status?.conditions ?? []) as readonly { type: string; status: string; message?: string }[];
  const scheduled = findCondition(conditions, "PodScheduled");
  return scheduled?.status === "False" && scheduled.message === message;
}
