import { parseTime } from "@keelson/api-machinery/time";
import type { CachedPod } from "../workload/pod-state.ts";

/** A Pod on a node, with what a preemption compares. */
export interface RankedPod {
  readonly pod: CachedPod;
  readonly priority: number;
  /** When it started, in milliseconds since the epoch. Infinity if it has not started. */
  readonly start: number;
}

/** The Pods that occupy a node. They are ranked once per round, when a preemption first asks. */
export class NodePods {
  readonly #pods: CachedPod[] = [];
  #ranked: RankedPod[] | undefined;

  /** All Pods, in no particular order. */
  get all(): readonly CachedPod[] {
    return this.#pods;
  }

  /** The most important Pod first: the highest priority, then the earliest start. */
  get ranked(): readonly RankedPod[] {
    this.#ranked ??= this.#pods.map(rankedPod).toSorted(byImportance);
    return this.#ranked;
  }

  /** Adds a Pod and keeps the order. */
  add(pod: CachedPod): void {
    this.#pods.push(pod);
    if (this.#ranked === undefined) return;
    const added = rankedPod(pod);
    const index = this.#ranked.findIndex((other) => byImportance(other, added) > 0);
    this.#ranked.splice(index === -1 ? this.#ranked.length : index, 0, added);
  }
}

/** The priority of a Pod. Default 0. */
export function priorityOf(pod: CachedPod): number {
  return pod.spec.priority ?? 0;
}

function rankedPod(pod: CachedPod): RankedPod {
  const start = parseTime(pod.status?.startTime ?? "") ?? Number.POSITIVE_INFINITY;
  return { pod, priority: priorityOf(pod), start };
}

function byImportance(a: RankedPod, b: RankedPod): number {
  return b.priority - a.priority || compare(a.start, b.start);
}

/** The order of two numbers, including of infinite ones. */
export function compare(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}
