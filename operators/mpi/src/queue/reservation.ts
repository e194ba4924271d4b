import type { Capacity, Placement } from "./capacity.ts";
import { type Gang, totalOf } from "./gang.ts";
import type { QuotaDomain, QuotaLedger, QuotaUse } from "./quota.ts";

/** An admitted job. */
export interface RunningJob extends QuotaUse {
  readonly id: string;
  readonly placement: Placement;
  /** When it ends at the latest, in milliseconds since the epoch; infinite without a deadline. */
  readonly endsAt: number;
}

/** A job that waits, as far as its reservation matters. */
export interface ReservedJob extends QuotaUse {
  readonly gang: Gang;
  readonly domains: readonly QuotaDomain[];
  readonly usesCapacity: boolean;
}

/**
 * The start of a waiting job at the latest, if no later job delays it: when enough of the running jobs have reached their deadlines (EASY
 * backfill). Jobs without a deadline end at an unknown time. If the start depends on one of them, later jobs may only take what the waiting
 * job cannot need.
 */
export class Reservation {
  readonly job: ReservedJob;
  /** Milliseconds since the epoch; infinite if it is unknown. */
  readonly startsAt: number;
  readonly #capacity: Capacity;
  readonly #ledger: QuotaLedger;
  readonly #isCapacityShort: boolean;

  /** `capacity` and `ledger`: what is free and used now. They are not changed. */
  constructor(job: ReservedJob, running: readonly RunningJob[], capacity: Capacity, ledger: QuotaLedger) {
    this.job = job;
    this.#capacity = capacity.copy();
    this.#ledger = ledger.copy();
    this.#isCapacityShort = job.usesCapacity && capacity.place(job.gang) === undefined;
    this.startsAt = this.#findStart(running);
  }

  /** Whether the job could start later if `other` started now. `capacity` and `ledger`: what is free and used now. */
  isDelayedBy(other: RunningJob, capacity: Capacity, ledger: QuotaLedger): boolean {
    if (Number.isFinite(this.startsAt)) return other.endsAt > this.startsAt && !this.#fitsBeside(other);
    // A job that waits for a quota at an unknown time reserves no capacity: it would stop jobs of other queues.
    return this.#needsQuotaOf(other, ledger) || (this.#isCapacityShort && this.#needsNodesOf(other, capacity));
  }

  /** Takes note of a job that was admitted after this reservation. */
  add(other: RunningJob): void {
    if (other.endsAt <= this.startsAt && Number.isFinite(this.startsAt)) return;
    this.#capacity.take(other.placement);
    this.#ledger.take(other);
  }

  #findStart(running: readonly RunningJob[]): number {
    const ending = running.filter(({ endsAt }) => Number.isFinite(endsAt)).sort((a, b) => a.endsAt - b.endsAt);
    for (const [index, job] of ending.entries()) {
      this.#capacity.release(job.placement);
      this.#ledger.release(job);
      if (ending[index + 1]?.endsAt !== job.endsAt && this.#fits()) return job.endsAt;
    }
    return Number.POSITIVE_INFINITY;
  }

  #fits(): boolean {
    const { domains, total, gang, usesCapacity } = this.job;
    if (this.#ledger.excesses(domains, total).length > 0) return false;
    return !usesCapacity || this.#capacity.place(gang) !== undefined;
  }

  #fitsBeside(other: RunningJob): boolean {
    this.#capacity.take(other.placement);
    this.#ledger.take(other);
    const fits = this.#fits();
    this.#capacity.release(other.placement);
    this.#ledger.release(other);
    return fits;
  }

  /** Whether `other` takes a part of a quota that may be missing later. */
  #needsQuotaOf({ queue, namespace, total }: RunningJob, ledger: QuotaLedger): boolean {
    const shared = this.job.domains.filter(({ key }) => key === queue || key === `${queue}/${namespace}`);
    const both = new Map([...total].map(([resource, amount]) => [resource, amount + (this.job.total.get(resource) ?? 0n)]));
    return ledger
      .excesses(shared, both)
      .some(({ resource }) => (total.get(resource) ?? 0n) > 0n && (this.job.total.get(resource) ?? 0n) > 0n);
  }

  /** Whether `other` takes something on a node that may be missing later. What is free now stays free while running jobs end. */
  #needsNodesOf({ placement }: RunningJob, capacity: Capacity): boolean {
    const { launcher, worker } = this.job.gang;
    const demand = totalOf(this.job.gang);
    for (const [node, amounts] of placement) {
      if (!worker.nodes.has(node) && launcher?.nodes.has(node) !== true) continue;
      const free = capacity.freeOn(node);
      for (const [resource, amount] of amounts) {
        const needed = demand.get(resource) ?? 0n;
        const left = free?.get(resource);
        if (amount > 0n && needed > 0n && left !== undefined && left - amount < needed) return true;
      }
    }
    return false;
  }
}
