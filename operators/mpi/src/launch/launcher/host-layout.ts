import type { LaunchOrder } from "../pod-environment.ts";

/** How the ranks of a job are spread over its hosts. */
export type Layout = Pick<LaunchOrder, "ranks" | "slots" | "launcherIsWorker">;

/** Number of hosts: Pods that run ranks, including a launcher that is one of them. */
export function hostCount({ ranks, slots = 1 }: Layout): number {
  return Math.ceil(ranks / slots);
}

/** Number of Pods of the workers' Job. A launcher that runs ranks is host 0, and the Pods follow it. */
export function workerPodCount(layout: Layout): number {
  return hostCount(layout) - (layout.launcherIsWorker === true ? 1 : 0);
}

/** Number of ranks of each host. The last host may have fewer. */
export function ranksOfHosts(layout: Layout): readonly number[] {
  const { ranks, slots = 1 } = layout;
  return Array.from({ length: hostCount(layout) }, (_, host) => Math.min(slots, ranks - host * slots));
}
