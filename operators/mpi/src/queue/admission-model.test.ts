import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cpus, queueState, waitingJob } from "../testing/queue-objects.ts";
import { planAdmissions, type QueueState, type WaitingJob } from "./admission-plan.ts";
import { Capacity } from "./capacity.ts";
import { domainsOf, QuotaLedger } from "./quota.ts";
import { Reservation, type RunningJob } from "./reservation.ts";

/*
 * A cluster in which jobs arrive, end and fail and nodes come and go in any order. After each step the queue plans.
 */

const nodeSizes = { n0: 8, n1: 4, n2: 2 };
const nodeNames = Object.keys(nodeSizes) as (keyof typeof nodeSizes)[];
const rules = new Map([
  ["default", {}],
  ["small", { quota: cpus(5), namespaceQuota: cpus(3) }],
]);

type Step =
  | { readonly kind: "arrive"; readonly job: Partial<WaitingJob> & { workers: number; cpu: number; nodes: string[] } }
  | { readonly kind: "end"; readonly index: number }
  | { readonly kind: "node"; readonly node: keyof typeof nodeSizes }
  | { readonly kind: "wait"; readonly ms: number };

const arrival: fc.Arbitrary<Step> = fc
  .record({
    workers: fc.integer({ min: 1, max: 6 }),
    cpu: fc.integer({ min: 0, max: 3 }),
    namespace: fc.constantFrom("a", "b", "c"),
    queue: fc.constantFrom("default", "small"),
    priority: fc.constantFrom(0, 0, 10),
    nodes: fc.constantFrom(nodeNames, nodeNames, nodeNames.slice(0, 1), nodeNames.slice(1)).map((names) => [...names]),
    limitMs: fc.option(fc.integer({ min: 1, max: 100_000 }), { nil: undefined }),
  })
  .map(({ limitMs, ...job }) => ({ kind: "arrive", job: limitMs === undefined ? job : { ...job, limitMs } }));
const steps = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: arrival },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("end" as const), index: fc.nat(20) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("node" as const), node: fc.constantFrom(...nodeNames) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("wait" as const),
        ms: fc.oneof(fc.integer({ min: 1, max: 20_000 }), fc.constant(700_000)),
      }),
    },
  ),
  { minLength: 10, maxLength: 60, size: "max" },
);

class Cluster {
  readonly lost = new Set<string>();
  running: readonly RunningJob[] = [];
  waiting: readonly WaitingJob[] = [];
  now = 0;
  #count = 0;

  state(): QueueState {
    const nodes = Object.fromEntries(Object.entries(nodeSizes).filter(([node]) => !this.lost.has(node)));
    return queueState(nodes, { running: this.running, waiting: this.waiting, rules, now: this.now });
  }

  take(step: Step): void {
    if (step.kind === "arrive") {
      const id = `j${String(this.#count++).padStart(3, "0")}`;
      this.waiting = [...this.waiting, waitingJob(id, { ...step.job, createdAt: this.now, queuedAt: this.now })];
    } else if (step.kind === "end") {
      this.running = this.running.filter((_, index) => index !== step.index % Math.max(this.running.length, 1));
    } else if (step.kind === "wait") {
      this.now += step.ms;
      this.running = this.running.filter(({ endsAt }) => endsAt > this.now);
    } else if (this.lost.delete(step.node)) return;
    else {
      this.lost.add(step.node);
      // Jobs on a lost node fail and leave the others.
      this.running = this.running.filter(({ placement }) => !placement.has(step.node));
    }
  }

  /** Plans and admits. Returns the number of admitted jobs. */
  plan(): number {
    const state = this.state();
    const verdicts = planAdmissions(state);
    const admitted = verdicts.flatMap((verdict) => (verdict.kind === "admitted" ? [verdict.running] : []));
    const ids = new Set(admitted.map(({ id }) => id));
    const head = verdicts.find(({ kind, job }) => kind === "waiting" && !ids.has(job.id))?.job;
    const ahead = verdicts.slice(
      0,
      verdicts.findIndex(({ job }) => job.id === head?.id),
    );
    const before = this.running.concat(admitted.filter(({ id }) => ahead.some(({ job }) => job.id === id)));
    const startBefore = head === undefined ? 0 : startOf(head, state, before);
    this.running = [...this.running, ...admitted];
    this.waiting = this.waiting.filter(({ id }) => !ids.has(id));
    if (head !== undefined) expect(startOf(head, state, this.running)).toBeLessThanOrEqual(startBefore);
    expect(verdicts.flatMap((each) => (each.kind === "waiting" ? [each.position] : []))).toEqual(
      verdicts.filter(({ kind }) => kind === "waiting").map((_, index) => index + 1),
    );
    return admitted.length;
  }

  /** No node and no quota is oversubscribed. */
  check(): void {
    for (const node of nodeNames.filter((each) => !this.lost.has(each))) {
      const used = this.running.reduce((sum, { placement }) => sum + (placement.get(node)?.get("cpu") ?? 0n), 0n);
      expect(used).toBeLessThanOrEqual(BigInt(nodeSizes[node]) * 1_000_000_000n);
    }
    const small = this.running.filter(({ queue }) => queue === "small");
    const sum = (jobs: readonly RunningJob[]) => jobs.reduce((total, job) => total + (job.total.get("cpu") ?? 0n), 0n);
    expect(sum(small)).toBeLessThanOrEqual(5_000_000_000n);
    for (const namespace of ["a", "b", "c"])
      expect(sum(small.filter((job) => job.namespace === namespace))).toBeLessThanOrEqual(3_000_000_000n);
  }
}

/** The reserved start of a waiting job alongside these running ones. */
function startOf(job: WaitingJob, state: QueueState, running: readonly RunningJob[]): number {
  const capacity = new Capacity(state.free ?? new Map());
  const ledger = new QuotaLedger();
  for (const each of running) {
    capacity.take(each.placement);
    ledger.take(each);
  }
  const reserved = { ...job, domains: domainsOf(state.rules.get(job.queue), job), usesCapacity: true };
  return new Reservation(reserved, running, capacity, ledger).startsAt;
}

describe("the queue, over random arrivals, ends, node losses and priorities", () => {
  it("never oversubscribes, never delays the head's reserved start, and admits every job that can run", () => {
    fc.assert(
      fc.property(steps, (all) => {
        const cluster = new Cluster();
        for (const step of all) {
          cluster.take(step);
          cluster.plan();
          cluster.check();
          // Nothing changes without a cause.
          expect(cluster.plan()).toBe(0);
        }
        cluster.lost.clear();
        // Arrivals stop and jobs end: the queue drains, so there was no deadlock.
        for (;;) {
          cluster.plan();
          cluster.check();
          if (cluster.running.length === 0) break;
          cluster.take({ kind: "end", index: 0 });
        }
        const left = planAdmissions(cluster.state());
        expect(left.filter(({ kind }) => kind !== "inadmissible")).toEqual([]);
      }),
      { numRuns: 80, seed: 18 },
    );
  });

  it("starts a large job although smaller ones of any namespace arrive all the time", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 5 }), fc.nat(3), (namespaces, shift) => {
        const cluster = new Cluster();
        const small = (namespace: string): Step => ({
          kind: "arrive",
          job: { workers: 1, cpu: 1, nodes: [...nodeNames], namespace, limitMs: 60_000 },
        });
        for (let index = 0; index < 20; index += 1) cluster.take(small("b"));
        cluster.plan();
        cluster.take({ kind: "arrive", job: { workers: 7, cpu: 2, nodes: [...nodeNames], namespace: "a" } });
        const large = cluster.waiting.at(-1)?.id;
        let rounds = 0;
        while (cluster.waiting.some(({ id }) => id === large)) {
          for (const namespace of namespaces) cluster.take(small(namespace));
          cluster.take({ kind: "wait", ms: 1000 });
          cluster.take({ kind: "end", index: rounds + shift });
          cluster.plan();
          // Ten minutes until it goes by age, and the deadline of what runs.
          expect((rounds += 1)).toBeLessThan(700);
        }
      }),
      { numRuns: 8, seed: 18 },
    );
  });
});
