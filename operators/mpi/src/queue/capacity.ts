import type { Amounts } from "@keelson/api-machinery/scheduling";
import type { Gang, PodShape } from "./gang.ts";

/** Requests by node. */
export type Placement = ReadonlyMap<string, Amounts>;

/**
 * Free capacity of nodes. Amounts may be negative, for example after a node has shrunk.
 *
 * A resource that a node does not list is absent from it, except for `pods`, which is unlimited then.
 */
export class Capacity {
  readonly #free: Map<string, Map<string, bigint>>;

  /** `free`: free amounts by resource, by node. */
  constructor(free: ReadonlyMap<string, Amounts>) {
    this.#free = new Map([...free].map(([node, amounts]) => [node, new Map(amounts)]));
  }

  /** An independent copy. */
  copy(): Capacity {
    return new Capacity(this.#free);
  }

  /** Free amounts of a node; undefined if the node does not exist. */
  freeOn(node: string): Amounts | undefined {
    return this.#free.get(node);
  }

  /** Subtracts a placement. Nodes that do not exist are ignored. */
  take(placement: Placement): void {
    this.#change(placement, -1n);
  }

  /** Adds a placement back. */
  release(placement: Placement): void {
    this.#change(placement, 1n);
  }

  #change(placement: Placement, sign: 1n | -1n): void {
    for (const [node, amounts] of placement) {
      const free = this.#free.get(node);
      if (free === undefined) continue;
      for (const [resource, amount] of amounts)
        if (free.has(resource)) free.set(resource, (free.get(resource) ?? 0n) + sign * amount);
    }
  }

  /**
   * Places all Pods of a gang, or none: undefined if they do not fit together. The workers are alike, so the answer is exact: the launcher
   * takes the node where it costs the fewest workers.
   */
  place({ launcher, worker, workers }: Gang): Placement | undefined {
    const counts = new Map<string, number>();
    let total = 0;
    for (const node of worker.nodes) {
      const count = this.#countOn(node, worker, workers);
      if (count > 0) counts.set(node, count);
      total += count;
    }
    if (launcher === undefined) return total < workers ? undefined : spread(worker, workers, counts, new Map());
    let best: { readonly node: string; readonly left: number; readonly loss: number } | undefined;
    for (const node of launcher.nodes) {
      if (this.#countOn(node, launcher, 1) < 1) continue;
      const before = counts.get(node) ?? 0;
      const left = before === 0 ? 0 : this.#countOn(node, worker, workers, launcher.requests);
      if (best === undefined || before - left < best.loss) best = { node, left, loss: before - left };
      if (best.loss === 0) break;
    }
    if (best === undefined || total - best.loss < workers) return undefined;
    counts.set(best.node, best.left);
    return spread(worker, workers, counts, new Map([[best.node, launcher.requests]]));
  }

  /** How many Pods of the gang fit, at least: for messages. */
  fitting({ launcher, worker, workers }: Gang): number {
    let total = 0;
    for (const node of worker.nodes) total += this.#countOn(node, worker, workers);
    const launchers =
      launcher !== undefined && [...launcher.nodes].some((node) => this.#countOn(node, launcher, 1) > 0) ? 1 : 0;
    return Math.min(total, workers) + launchers;
  }

  /** How many Pods of this shape fit a node, up to `max`, after `taken` is subtracted. */
  #countOn(node: string, { requests }: PodShape, max: number, taken?: Amounts): number {
    const free = this.#free.get(node);
    if (free === undefined) return 0;
    let count = BigInt(max);
    for (const [resource, amount] of requests) {
      if (amount <= 0n) continue;
      const all = free.get(resource);
      if (all === undefined && resource === "pods") continue;
      const left = (all ?? 0n) - (taken?.get(resource) ?? 0n);
      const fits = left <= 0n ? 0n : left / amount;
      if (fits < count) count = fits;
    }
    return Number(count);
  }
}

/** Places workers on the nodes that have room for the most of them, alongside what is already placed. */
function spread(
  { requests }: PodShape,
  workers: number,
  counts: ReadonlyMap<string, number>,
  placed: Map<string, Amounts>,
): Placement {
  let left = workers;
  for (const [node, count] of [...counts].sort(([, a], [, b]) => b - a)) {
    if (left === 0) break;
    const here = Math.min(count, left);
    left -= here;
    const sum = new Map(placed.get(node));
    for (const [resource, amount] of requests) sum.set(resource, (sum.get(resource) ?? 0n) + amount * BigInt(here));
    if (here > 0) placed.set(node, sum);
  }
  return placed;
}
