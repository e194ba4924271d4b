import { formatQuantity } from "@keelson/api-machinery/quantity";
import { addAmounts, type Amounts } from "@keelson/api-machinery/scheduling";
import { defaultQueueName, type WaitReason } from "../api/mpi-queue.ts";
import { Capacity, type Placement } from "./capacity.ts";
import type { Gang } from "./gang.ts";
import { type OrderedJob, orderJobs } from "./job-order.ts";
import { domainsOf, type Excess, QuotaLedger, type QueueRules } from "./quota.ts";
import { Reservation, type ReservedJob, type RunningJob } from "./reservation.ts";

/** A job that waits for admission. */
export interface WaitingJob extends OrderedJob {
  /** Namespace and name, for messages. */
  readonly name: string;
  readonly queue: string;
  readonly gang: Gang;
  /** How long it may run; undefined without a deadline. */
  readonly limitMs?: number;
}

/** Input of the plan. */
export interface QueueState {
  /** What running jobs may use and waiting jobs may get, by resource, by node. Undefined if the cluster has no nodes: only quotas count. */
  readonly free: ReadonlyMap<string, Amounts> | undefined;
  /** What Pods of jobs that have ended hold until they have ended too. Default: nothing. */
  readonly ending?: Placement;
  /** What all nodes have. */
  readonly all: Amounts;
  readonly running: readonly RunningJob[];
  readonly waiting: readonly WaitingJob[];
  /** Limits by queue. If there are none, any queue may be named. */
  readonly rules: ReadonlyMap<string, QueueRules>;
  readonly now: number;
}

/** The decision about a waiting job. */
export type Verdict =
  | { readonly kind: "admitted"; readonly job: WaitingJob; readonly running: RunningJob }
  | {
      readonly kind: "waiting";
      readonly job: WaitingJob;
      readonly position: number;
      readonly reason: WaitReason;
      readonly message: string;
    }
  /** The job cannot run unless the queue or the nodes change, so it delays no other. */
  | { readonly kind: "inadmissible"; readonly job: WaitingJob; readonly reason: WaitReason; readonly message: string };

/** Maximum number of waiting jobs whose start later jobs may not delay. */
const maxReservations = 8;

/**
 * Decides which waiting jobs to admit, in the order of {@link orderJobs}.
 *
 * **Guarantees**: a job is admitted only if all its Pods fit the free capacity and its quotas together, so admitted jobs never wait for one
 * another. A job that does not fit gets a {@link Reservation}; a later job is admitted before it only if that does not delay the reserved start.
 */
export function planAdmissions(state: QueueState): readonly Verdict[] {
  const used = new Map<string, Map<string, bigint>>();
  for (const { namespace, total } of state.running) {
    const sum = used.get(namespace) ?? new Map<string, bigint>();
    addAmounts(sum, total);
    used.set(namespace, sum);
  }
  const plan = new Plan(state);
  return orderJobs(state.waiting, used, state.all, state.now).map((job) => plan.decide(job));
}

class Plan {
  readonly #state: QueueState;
  readonly #capacity: Capacity;
  readonly #ledger = new QuotaLedger();
  /** The capacity when all running jobs and the Pods of earlier ones have ended. */
  readonly #drained: Capacity;
  readonly #running: RunningJob[];
  readonly #reservations: { readonly name: string; readonly reservation: Reservation }[] = [];
  #position = 0;

  constructor(state: QueueState) {
    this.#state = state;
    this.#running = [...state.running];
    this.#drained = new Capacity(state.free ?? new Map());
    this.#capacity = this.#drained.copy();
    this.#capacity.take(state.ending ?? new Map());
    for (const job of state.running) {
      this.#capacity.take(job.placement);
      this.#ledger.take(job);
    }
  }

  decide(job: WaitingJob): Verdict {
    const rules = this.#state.rules.get(job.queue);
    const usesCapacity = this.#state.free !== undefined && rules?.ignoresCapacity !== true;
    const reserved = { ...job, domains: domainsOf(rules, job), usesCapacity };
    const refusal = this.#refusal(reserved, rules);
    if (refusal !== undefined) return { kind: "inadmissible", job, ...refusal };
    if (rules?.isHeld === true) return this.#waits(job, "QueueHeld", `queue ${job.queue} admits no jobs`);
    const placement = usesCapacity ? this.#capacity.place(job.gang) : new Map<string, Amounts>();
    const [excess] = this.#ledger.excesses(reserved.domains, job.total);
    if (excess !== undefined || placement === undefined) {
      this.#reserve(reserved);
      return excess === undefined
        ? this.#waits(job, "InsufficientCapacity", this.#shortageOf(job.gang))
        : this.#waits(job, "QuotaExceeded", excessText(excess, job.total));
    }
    const { queue, namespace, total } = job;
    const running = { id: job.id, queue, namespace, total, placement, endsAt: this.#state.now + (job.limitMs ?? Infinity) };
    const head = this.#reservations.find(({ reservation }) => reservation.isDelayedBy(running, this.#capacity, this.#ledger));
    if (head !== undefined) return this.#waits(job, "WaitsForHead", `could delay ${head.name}, which is ahead`);
    this.#admit(running);
    return { kind: "admitted", job, running };
  }

  /** Why the job cannot be admitted even if all running jobs end. */
  #refusal(
    { queue, namespace, gang, total, domains, usesCapacity }: ReservedJob,
    rules: QueueRules | undefined,
  ): { readonly reason: WaitReason; readonly message: string } | undefined {
    if (rules === undefined && this.#state.rules.size > 0 && queue !== defaultQueueName)
      return { reason: "QueueNotFound", message: `MPIQueue ${queue} not found` };
    if (rules?.namespaces?.has(namespace) === false)
      return { reason: "NamespaceNotAllowed", message: `queue ${queue} does not accept jobs of namespace ${namespace}` };
    const [excess] = new QuotaLedger().excesses(domains, total);
    if (excess !== undefined) return { reason: "ExceedsQuota", message: excessText(excess, total) };
    if (!usesCapacity || this.#drained.place(gang) !== undefined) return undefined;
    const pods = gang.workers + (gang.launcher === undefined ? 0 : 1);
    const message = `${this.#drained.fitting(gang)} of ${pods} Pods would fit the nodes if no other MPI job ran`;
    return { reason: "ExceedsCapacity", message };
  }

  #reserve(job: ReservedJob & { readonly name: string }): void {
    if (this.#reservations.length >= maxReservations) return;
    const reservation = new Reservation(job, this.#running, this.#capacity, this.#ledger);
    this.#reservations.push({ name: job.name, reservation });
  }

  #admit(running: RunningJob): void {
    this.#capacity.take(running.placement);
    this.#ledger.take(running);
    this.#running.push(running);
    for (const { reservation } of this.#reservations) reservation.add(running);
  }

  #waits(job: WaitingJob, reason: WaitReason, message: string): Verdict {
    this.#position += 1;
    return { kind: "waiting", job, position: this.#position, reason, message };
  }

  #shortageOf(gang: Gang): string {
    const pods = gang.workers + (gang.launcher === undefined ? 0 : 1);
    return `${this.#capacity.fitting(gang)} of ${pods} Pods fit the free capacity of the nodes`;
  }
}

function excessText({ domain, resource, used }: Excess, total: Amounts): string {
  const format = (nanos: bigint): string => formatQuantity({ nanos, format: resource === "memory" ? "BinarySI" : "DecimalSI" });
  const limit = format(domain.limits.get(resource) ?? 0n);
  return `${domain.description}: requests ${format(total.get(resource) ?? 0n)} ${resource}, ${format(used)} of ${limit} used`;
}
