import { findCondition } from "@keelson/api-machinery";
import type { NodeObject, PersistentVolumeObject, StorageClassObject } from "@keelson/api-machinery/kinds";
import { parseTime } from "@keelson/api-machinery/time";
import { isPodTerminal, isPodTerminating, type SeenPod } from "../workload/pod-state.ts";
import type { Claim } from "../workload/resources.ts";
import type { Seen } from "../workload/write.ts";
import { freeShare, loadOf, type Misfit, misfitsOf, type NodeLoad, place } from "./node-fit.ts";

/** What scheduling is decided upon. */
export interface ObservedPods {
  readonly nodes: readonly Seen<NodeObject>[];
  /** All Pods, those that wait and those that have a node. */
  readonly pods: readonly SeenPod[];
  readonly claims: readonly Claim[];
  readonly classes: readonly Seen<StorageClassObject>[];
  readonly volumes: readonly Seen<PersistentVolumeObject>[];
  /** Nodes by uid of Pods that were bound and are not shown so yet. */
  readonly assumed: ReadonlyMap<string, string>;
}

/** What becomes of a Pod that waits for a node. */
export type Placement =
  | { readonly kind: "bind"; readonly pod: SeenPod; readonly node: string }
  /** A claim waits for its first consumer: the node is chosen, the volume comes, then the Pod is bound. */
  | { readonly kind: "select-node"; readonly pod: SeenPod; readonly node: string; readonly claims: readonly Claim[] }
  | { readonly kind: "fail"; readonly pod: SeenPod; readonly message: string };

/** The annotation of a claim that tells on which node its first consumer will be. */
export const selectedNodeAnnotation = "volume.kubernetes.io/selected-node";

/** Whether the Pod waits for this scheduler. */
export function isWaiting(pod: SeenPod): boolean {
  const { nodeName, schedulerName = "default-scheduler", schedulingGates = [] } = pod.spec;
  if (nodeName || schedulerName !== "default-scheduler" || schedulingGates.length > 0) return false;
  return !isPodTerminal(pod) && !isPodTerminating(pod);
}

/** Places every Pod that waits: by priority, then by age. Each one placed takes its share before the next is looked at. */
export function schedule(observed: ObservedPods): readonly Placement[] {
  const { nodes, pods, assumed } = observed;
  const nodeOf = (pod: SeenPod): string | undefined => pod.spec.nodeName || assumed.get(pod.metadata.uid ?? "");
  const waiting = pods.filter((pod) => isWaiting(pod) && nodeOf(pod) === undefined).toSorted(byUrgency);
  if (waiting.length === 0) return [];
  const onNode = new Map<string, SeenPod[]>();
  for (const pod of pods) {
    const name = nodeOf(pod);
    // A Pod that is being deleted holds what it has until it is gone.
    if (name === undefined || isPodTerminal(pod)) continue;
    const others = onNode.get(name);
    if (others === undefined) onNode.set(name, [pod]);
    else others.push(pod);
  }
  const loads = nodes
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map((node) => loadOf(node, onNode.get(node.metadata.name ?? "") ?? []));
  return waiting.flatMap((pod) => placePod(pod, loads, observed));
}

function placePod(pod: SeenPod, loads: readonly NodeLoad[], observed: ObservedPods): readonly Placement[] {
  const fail = (message: string): readonly Placement[] => [{ kind: "fail", pod, message }];
  if (loads.length === 0) return fail("no nodes available to schedule pods");
  const { problem, unbound } = claimsOf(pod, observed);
  if (problem !== undefined) return fail(`0/${loads.length} nodes are available: ${problem}. ${notHelpful(loads.length)}`);
  const misfits = loads.map((load) => misfitsOf(pod, load));
  const fitting = loads.filter((_, index) => misfits[index]?.length === 0);
  if (fitting.length === 0) return fail(explain(misfits));
  const selected = unbound.map((claim) => claim.metadata.annotations?.[selectedNodeAnnotation]).find((name) => name);
  const ranked = fitting.toSorted((a, b) => freeShare(pod, b) - freeShare(pod, a) || a.pods - b.pods);
  const chosen = ranked.find(({ node }) => node.metadata.name === selected) ?? ranked[0];
  if (chosen === undefined) return [];
  const node = chosen.node.metadata.name ?? "";
  // What waits for its volume has its place already.
  place(chosen, pod);
  if (unbound.length === 0) return [{ kind: "bind", pod, node }];
  const claims = unbound.filter((claim) => claim.metadata.annotations?.[selectedNodeAnnotation] !== node);
  return claims.length === 0 ? [] : [{ kind: "select-node", pod, node, claims }];
}

/** The claims of a Pod that wait for it, or what is wrong with one of them. */
function claimsOf(
  pod: SeenPod,
  { claims, classes }: ObservedPods,
): { readonly problem?: string; readonly unbound: readonly Claim[] } {
  const unbound: Claim[] = [];
  for (const name of claimNames(pod)) {
    const claim = claims.find(({ metadata }) => metadata.namespace === pod.metadata.namespace && metadata.name === name);
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

/** The names of the claims that a Pod's volumes are of. */
export function claimNames(pod: SeenPod): readonly string[] {
  return (pod.spec.volumes ?? []).flatMap((volume) => {
    if (volume.persistentVolumeClaim !== undefined) return [volume.persistentVolumeClaim.claimName];
    return "ephemeral" in volume ? [`${pod.metadata.name}-${volume.name}`] : [];
  });
}

function explain(misfits: readonly (readonly Misfit[])[]): string {
  const counts = new Map<string, number>();
  for (const { reason } of misfits.flat()) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const reasons = [...counts].map(([reason, count]) => `${count} ${reason}`).toSorted();
  const total = misfits.length;
  const permanent = misfits.filter((one) => one.some(({ isPermanent }) => isPermanent)).length;
  const preemption = [
    ...(permanent < total ? [`${total - permanent} No preemption victims found for incoming pod`] : []),
    ...(permanent > 0 ? [`${permanent} Preemption is not helpful for scheduling`] : []),
  ];
  return `0/${total} nodes are available: ${reasons.join(", ")}. preemption: 0/${total} nodes are available: ${preemption.join(", ")}.`;
}

function notHelpful(total: number): string {
  return `preemption: 0/${total} nodes are available: ${total} Preemption is not helpful for scheduling.`;
}

function byUrgency(a: SeenPod, b: SeenPod): number {
  const at = (pod: SeenPod): number => parseTime(pod.metadata.creationTimestamp ?? "") ?? 0;
  return (b.spec.priority ?? 0) - (a.spec.priority ?? 0) || at(a) - at(b);
}

/** Whether the Pod's status says so already. */
export function isToldOf(pod: SeenPod, message: string): boolean {
  const conditions = (pod.status?.conditions ?? []) as readonly { type: string; status: string; message?: string }[];
  const scheduled = findCondition(conditions, "PodScheduled");
  return scheduled?.status === "False" && scheduled.message === message;
}
