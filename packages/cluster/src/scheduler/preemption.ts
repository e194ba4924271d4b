import { parseTime } from "@keelson/api-machinery/time";
import { type CachedPod, isPodTerminating } from "../workload/pod-state.ts";
import { addPod, loadOf, type Misfit, misfitsOf, type NodeLoad } from "./node-fit.ts";

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
export function awaitsVictims(pod: CachedPod, onNode: ReadonlyMap<string, readonly CachedPod[]>): boolean {
  const nominated = pod.status?.nominatedNodeName;
  if (nominated === undefined || nominated === "") return false;
  return (onNode.get(nominated) ?? []).some((other) => isPodTerminating(other) && priorityOf(other) < priorityOf(pod));
}

/**
 * Chooses the node on which the least important Pods make room for `pod`, as kube-scheduler does: the fewest Pods that must go, with
 * the lowest priorities, and among equals those that started last. PodDisruptionBudgets are not considered.
 *
 * @param misfits why the Pod does not fit each of `loads`
 * @param onNode the Pods that occupy each node
 */
export function findPreemption(
  pod: CachedPod,
  loads: readonly NodeLoad[],
  misfits: readonly (readonly Misfit[])[],
  onNode: ReadonlyMap<string, readonly CachedPod[]>,
): Preemption | undefined {
  const candidates = loads.flatMap((load, index) => {
    if (misfits[index]?.some(({ isPermanent }) => isPermanent) !== false) return [];
    const node = load.node.metadata.name ?? "";
    const victims = victimsOn(load, pod, onNode.get(node) ?? []);
    return victims === undefined ? [] : [{ node, victims }];
  });
  return candidates.toSorted(byHarm)[0];
}

/** The Pods that must leave a node; undefined if it would not help. */
function victimsOn({ node }: NodeLoad, pod: CachedPod, pods: readonly CachedPod[]): readonly CachedPod[] | undefined {
  const lower = pods.filter((other) => priorityOf(other) < priorityOf(pod));
  if (lower.length === 0) return undefined;
  const rest = loadOf(
    node,
    pods.filter((other) => !lower.includes(other)),
  );
  if (misfitsOf(pod, rest).length > 0) return undefined;
  addPod(rest, pod);
  const victims: CachedPod[] = [];
  for (const candidate of lower.toSorted(byImportance)) {
    if (misfitsOf(candidate, rest).some(({ isPermanent }) => !isPermanent)) victims.push(candidate);
    else addPod(rest, candidate);
  }
  return victims;
}

function priorityOf(pod: CachedPod): number {
  return pod.spec.priority ?? 0;
}

function startOf(pod: CachedPod): number {
  return parseTime(pod.status?.startTime ?? "") ?? Number.POSITIVE_INFINITY;
}

/** The most important Pod first: it is the first to stay. */
function byImportance(a: CachedPod, b: CachedPod): number {
  return priorityOf(b) - priorityOf(a) || compare(startOf(a), startOf(b));
}

function byHarm(a: Preemption, b: Preemption): number {
  const highest = ({ victims }: Preemption): number => Math.max(...victims.map(priorityOf));
  const total = ({ victims }: Preemption): number => victims.reduce((sum, victim) => sum + priorityOf(victim), 0);
  const earliest = ({ victims }: Preemption): number => Math.min(...victims.map(startOf));
  return (
    compare(highest(a), highest(b)) ||
    compare(total(a), total(b)) ||
    a.victims.length - b.victims.length ||
    compare(earliest(b), earliest(a))
  );
}

function compare(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}
