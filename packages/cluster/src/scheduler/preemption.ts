import { type CachedPod, isPodTerminating } from "../workload/pod-state.ts";
import { addPod, loadOf, type Misfit, misfitsOf, type NodeLoad } from "./node-fit.ts";
import { compare, type NodePods, priorityOf, type RankedPod } from "./node-pods.ts";
import type { WorkMeter } from "./work-meter.ts";

/** Pods of lower priority that make room on a node. */
export interface Preemption {
  readonly node: string;
  readonly victims: readonly CachedPod[];
}

/** Whether a Pod may preempt others. */
export function mayPreempt(pod: CachedPod): boolean {
  return pod.spec.preemptionPolicy !== "Never";
}

/** Whether a Pod waits for victims of an earlier preemption to terminate on its nominated node. */
export function awaitsVictims(pod: CachedPod, onNode: ReadonlyMap<string, NodePods>): boolean {
  const nominated = pod.status?.nominatedNodeName;
  if (nominated === undefined || nominated === "") return false;
  return (onNode.get(nominated)?.all ?? []).some((other) => isPodTerminating(other) && priorityOf(other) < priorityOf(pod));
}

/** A node with the Pods that would have to leave it. */
interface Candidate {
  readonly node: string;
  readonly victims: readonly RankedPod[];
}

/**
 * Chooses the node on which the least important Pods make room for `pod`, as kube-scheduler does: the fewest Pods that must go, with
 * the lowest priorities, and among equals those that started last. PodDisruptionBudgets are not considered. Yields when `work` ends the
 * step.
 *
 * @param misfits why the Pod does not fit each of `loads`
 * @param onNode the Pods that occupy each node
 */
export function* findPreemption(
  pod: CachedPod,
  loads: readonly NodeLoad[],
  misfits: readonly (readonly Misfit[])[],
  { onNode, work }: { readonly onNode: ReadonlyMap<string, NodePods>; readonly work: WorkMeter },
): Generator<undefined, Preemption | undefined, void> {
  const candidates: Candidate[] = [];
  for (const [index, load] of loads.entries()) {
    if (work.endsStep()) yield;
    if (misfits[index]?.some(({ isPermanent }) => isPermanent) !== false) continue;
    const node = load.node.metadata.name ?? "";
    const pods = onNode.get(node);
    const victims = pods === undefined ? undefined : yield* victimsOn(load, pod, pods.ranked, work);
    if (victims !== undefined) candidates.push({ node, victims });
  }
  const best = candidates.toSorted(byHarm)[0];
  return best === undefined ? undefined : { node: best.node, victims: best.victims.map((victim) => victim.pod) };
}

/** The Pods that must leave a node; undefined if it would not help. */
function* victimsOn(
  { node }: NodeLoad,
  pod: CachedPod,
  ranked: readonly RankedPod[],
  work: WorkMeter,
): Generator<undefined, readonly RankedPod[] | undefined, void> {
  const priority = priorityOf(pod);
  const lowest = ranked.at(-1);
  if (lowest === undefined || lowest.priority >= priority) return undefined;
  const rest = loadOf(node, []);
  const victims: RankedPod[] = [];
  let hasPod = false;
  for (const other of ranked) {
    if (work.endsStep()) yield;
    if (other.priority >= priority) {
      addPod(rest, other.pod);
      continue;
    }
    // All Pods that must stay are counted: the others stay as long as they and the new Pod have room.
    if (!hasPod) {
      if (misfitsOf(pod, rest).length > 0) return undefined;
      addPod(rest, pod);
      hasPod = true;
    }
    if (misfitsOf(other.pod, rest).some(({ isPermanent }) => !isPermanent)) victims.push(other);
    else addPod(rest, other.pod);
  }
  return victims;
}

function byHarm(a: Candidate, b: Candidate): number {
  const highest = ({ victims }: Candidate): number => victims[0]?.priority ?? Number.NEGATIVE_INFINITY;
  const total = ({ victims }: Candidate): number => victims.reduce((sum, { priority }) => sum + priority, 0);
  const earliest = ({ victims }: Candidate): number =>
    victims.reduce((least, { start }) => Math.min(least, start), Number.POSITIVE_INFINITY);
  return (
    compare(highest(a), highest(b)) ||
    compare(total(a), total(b)) ||
    a.victims.length - b.victims.length ||
    compare(earliest(b), earliest(a))
  );
}
