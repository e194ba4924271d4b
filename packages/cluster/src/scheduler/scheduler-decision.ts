import { findCondition } from "@keelson/api-machinery";
import type { NodeObject, PersistentVolumeObject, StorageClassObject } from "@keelson/api-machinery/kinds";
import { isPodTerminal, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import type { Claim } from "../workload/cached-objects.ts";
import type { Cached } from "../workload/write.ts";
import { awaitsVictims, findPreemption, mayPreempt } from "./preemption.ts";
import { addPod, freeShare, loadOf, type Misfit, misfitsOf, type NodeLoad } from "./node-fit.ts";

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

/** Pods that are placed in one step. */
const podsPerStep = 64;

/** {@link schedule} in steps: a user can create thousands of pending Pods. */
export function* scheduleInSteps(observed: ObservedPods): Generator<undefined, readonly Placement[], void> {
  const { nodes, pods, assumed } = observed;
  const nodeOf = (pod: CachedPod): string | undefined => pod.spec.nodeName || assumed.get(pod.metadata.uid ?? "");
  const pending = pods.filter((pod) => isPending(pod) && nodeOf(pod) === undefined).toSorted(byUrgency);
  if (pending.length === 0) return [];
  const onNode = new Map<string, CachedPod[]>();
  for (const pod of pods) {
    const name = nodeOf(pod);
    // A terminating Pod holds its resources until it is deleted.
    if (name === undefined || isPodTerminal(pod)) continue;
    const others = onNode.get(name);
    if (others === undefined) onNode.set(name, [pod]);
    else others.push(pod);
  }
  const loads = nodes
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map((node) => loadOf(node, onNode.get(node.metadata.name ?? "") ?? []));
  const claims = new Map(observed.claims.map((claim) => [claimKey(claim.metadata.namespace, claim.metadata.name), claim]));
  const round: Round = { loads, onNode, claims, classes: observed.classes };
  const placements: Placement[] = [];
  for (const [index, pod] of pending.entries()) {
    if (index % podsPerStep === 0) yield;
    placements.push(...placePod(pod, round));
  }
  return placements;
}

const claimKey = (namespace = "", name = ""): string => `${namespace}/${name}`;

/** The nodes with the Pods that occupy them, including those placed in this round. */
interface Round {
  readonly loads: readonly NodeLoad[];
  readonly onNode: Map<string, CachedPod[]>;
  /** By namespace and name. */
  readonly claims: ReadonlyMap<string, Claim>;
  readonly classes: ObservedPods["classes"];
}

function placePod(pod: CachedPod, round: Round): readonly Placement[] {
  const { loads } = round;
  const fail = (message: string): readonly Placement[] => [{ kind: "fail", pod, message }];
  if (loads.length === 0) return fail("no nodes available to schedule pods");
  const { problem, unbound } = claimsOf(pod, round);
  if (problem !== undefined) return fail(`0/${loads.length} nodes are available: ${problem}. ${notHelpful(loads.length)}`);
  const misfits = loads.map((load) => misfitsOf(pod, load));
  const fitting = loads.filter((_, index) => misfits[index]?.length === 0);
  if (fitting.length === 0) return [makeRoom(pod, misfits, round)];
  const selected = unbound.map((claim) => claim.metadata.annotations?.[selectedNodeAnnotation]).find((name) => name);
  const ranked = fitting.toSorted((a, b) => freeShare(pod, b) - freeShare(pod, a) || a.pods - b.pods);
  const chosen = ranked.find(({ node }) => node.metadata.name === selected) ?? ranked[0];
  if (chosen === undefined) return [];
  const node = chosen.node.metadata.name ?? "";
  // A Pod that waits for its volume already holds its resources.
  occupy(round, chosen, pod);
  if (unbound.length === 0) return [{ kind: "bind", pod, node }];
  const claims = unbound.filter((claim) => claim.metadata.annotations?.[selectedNodeAnnotation] !== node);
  return claims.length === 0 ? [] : [{ kind: "select-node", pod, node, claims }];
}

function occupy({ onNode }: Round, load: NodeLoad, pod: CachedPod): void {
  addPod(load, pod);
  const name = load.node.metadata.name ?? "";
  onNode.set(name, [...(onNode.get(name) ?? []), pod]);
}

/** Preempts Pods of lower priority for a Pod that fits no node, or says why it cannot. */
function makeRoom(pod: CachedPod, misfits: readonly (readonly Misfit[])[], round: Round): Placement {
  const { loads, onNode } = round;
  const why = reasonsOf(misfits);
  const nominated = loads.find(({ node }) => node.metadata.name === pod.status?.nominatedNodeName);
  if (nominated !== undefined && awaitsVictims(pod, onNode)) {
    // Pods of lower priority must not take the room in the meantime.
    occupy(round, nominated, pod);
    return { kind: "fail", pod, message: `${why} preemption: not eligible due to a terminating pod on the nominated node.` };
  }
  if (!mayPreempt(pod)) {
    return { kind: "fail", pod, message: `${why} preemption: not eligible due to preemptionPolicy=Never.` };
  }
  const preemption = findPreemption(pod, loads, misfits, onNode);
  if (preemption === undefined) return { kind: "fail", pod, message: explain(misfits) };
  const load = loads.find(({ node }) => node.metadata.name === preemption.node);
  if (load !== undefined) occupy(round, load, pod);
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
