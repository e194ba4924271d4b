import type { Amounts } from "@keelson/api-machinery/scheduling";
import type { QueueState, Verdict, WaitingJob } from "../queue/admission-plan.ts";
import { type Gang, totalOf } from "../queue/gang.ts";

/*
 * Jobs and nodes for tests of the queue's plan. Amounts are whole cpus.
 */

/** Amounts of cpu and one Pod. */
export const cpus = (count: number): Amounts => new Map([["cpu", BigInt(count) * 1_000_000_000n]]);

/** A gang whose launcher requests nothing, on these nodes. */
export function gangOf(workers: number, cpu: number, nodes: readonly string[]): Gang {
  const on = new Set(nodes);
  return { launcher: { requests: cpus(0), nodes: on }, worker: { requests: cpus(cpu), nodes: on }, workers };
}

/** A waiting job of one worker per cpu. */
export function waitingJob(
  id: string,
  {
    workers = 1,
    cpu = 1,
    nodes = ["n"],
    ...rest
  }: Partial<WaitingJob> & { workers?: number; cpu?: number; nodes?: string[] } = {},
): WaitingJob {
  const gang = gangOf(workers, cpu, nodes);
  const base = { id, name: id, namespace: "a", queue: "default", priority: 0, createdAt: 0, queuedAt: 0 };
  return { ...base, gang, total: totalOf(gang), ...rest };
}

/** A state with these nodes and nothing running. */
export function queueState(nodes: Readonly<Record<string, number>>, rest: Partial<QueueState> = {}): QueueState {
  const free = new Map(Object.entries(nodes).map(([node, count]) => [node, cpus(count)]));
  const all = cpus(Object.values(nodes).reduce((sum, count) => sum + count, 0));
  return { free, all, running: [], waiting: [], rules: new Map(), now: 0, ...rest };
}

/** Ids of the admitted jobs, in order. */
export const admittedIds = (verdicts: readonly Verdict[]): readonly string[] =>
  verdicts.filter(({ kind }) => kind === "admitted").map(({ job }) => job.id);
