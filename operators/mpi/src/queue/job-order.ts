import type { Amounts } from "@keelson/api-machinery/scheduling";

/** A job as far as its order matters. */
export interface OrderedJob {
  readonly id: string;
  readonly namespace: string;
  /** Value of its PriorityClass; jobs with a higher one come first. */
  readonly priority: number;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Since when it waits, in milliseconds since the epoch. */
  readonly queuedAt: number;
  readonly total: Amounts;
}

/** Time after which a waiting job goes by its age instead of its namespace's share, so that no stream of later jobs can pass it. */
export const agedAfterMs = 10 * 60_000;

/**
 * The order in which jobs are considered: by priority; then those that have waited for {@link agedAfterMs}, by age; then the oldest job of the
 * namespace that uses the smallest share of the cluster, where each job in the order counts as if it were running.
 *
 * `used`: what running jobs use, by namespace. `all`: what the cluster has, by resource; others have no share.
 */
export function orderJobs<T extends OrderedJob>(
  jobs: readonly T[],
  used: ReadonlyMap<string, Amounts>,
  all: Amounts,
  now: number,
): readonly T[] {
  const shares = new Map<string, Map<string, bigint>>([...used].map(([namespace, amounts]) => [namespace, new Map(amounts)]));
  const charge = ({ namespace, total }: T): void => {
    const sum = shares.get(namespace) ?? new Map<string, bigint>();
    for (const [resource, amount] of total) sum.set(resource, (sum.get(resource) ?? 0n) + amount);
    shares.set(namespace, sum);
  };
  const byAge = [...jobs].sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  const priorities = [...new Set(jobs.map(({ priority }) => priority))].sort((a, b) => b - a);
  const order: T[] = [];
  for (const priority of priorities) {
    const peers = byAge.filter((job) => job.priority === priority);
    const isAged = ({ queuedAt }: T): boolean => now - queuedAt >= agedAfterMs;
    for (const job of peers.filter(isAged)) {
      order.push(job);
      charge(job);
    }
    const waiting = new Map<string, T[]>();
    for (const job of peers.filter((each) => !isAged(each)))
      waiting.set(job.namespace, [...(waiting.get(job.namespace) ?? []), job]);
    for (const queue of waiting.values()) queue.reverse();
    while (waiting.size > 0) {
      const namespace = smallestShare([...waiting.keys()], (each) => dominantShare(shares.get(each), all), waiting);
      const queue = waiting.get(namespace) ?? [];
      const job = queue.pop();
      if (queue.length === 0) waiting.delete(namespace);
      if (job === undefined) continue;
      order.push(job);
      charge(job);
    }
  }
  return order;
}

/** The namespace with the smallest share; among equals, the one whose next job is the oldest. */
function smallestShare<T extends OrderedJob>(
  namespaces: readonly string[],
  shareOf: (namespace: string) => number,
  waiting: ReadonlyMap<string, readonly T[]>,
): string {
  let best = { namespace: namespaces[0] ?? "", share: Number.POSITIVE_INFINITY, createdAt: Number.POSITIVE_INFINITY };
  for (const namespace of namespaces) {
    const share = shareOf(namespace);
    const createdAt = waiting.get(namespace)?.at(-1)?.createdAt ?? 0;
    if (share < best.share || (share === best.share && createdAt < best.createdAt)) best = { namespace, share, createdAt };
  }
  return best.namespace;
}

/** The largest share of any resource that an amount is, 0 to 1 (dominant resource fairness). */
function dominantShare(amounts: Amounts | undefined, all: Amounts): number {
  let share = 0;
  for (const [resource, amount] of amounts ?? []) {
    const whole = all.get(resource) ?? 0n;
    if (whole > 0n) share = Math.max(share, Number((amount * 1_000_000n) / whole) / 1_000_000);
  }
  return share;
}
