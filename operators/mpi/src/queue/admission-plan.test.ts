import { describe, expect, it } from "vitest";
import { admittedIds, cpus, gangOf, queueState, waitingJob } from "../testing/queue-objects.ts";
import { planAdmissions, type QueueState, type Verdict } from "./admission-plan.ts";
import type { RunningJob } from "./reservation.ts";

const infinite = Number.POSITIVE_INFINITY;
const running = (id: string, cpu: number, endsAt = infinite, node = "n"): RunningJob => ({
  ...{ id, queue: "default", namespace: "a", total: cpus(cpu), endsAt },
  placement: new Map([[node, cpus(cpu)]]),
});
const verdictOf = (verdicts: readonly Verdict[], id: string) => verdicts.find(({ job }) => job.id === id);
const plan = (nodes: Record<string, number>, rest: Partial<QueueState>) => planAdmissions(queueState(nodes, rest));

describe("gang admission", () => {
  it("admits a job only if all its Pods fit", () => {
    const big = waitingJob("big", { workers: 3, cpu: 2 });
    expect(admittedIds(plan({ n: 6 }, { waiting: [big] }))).toEqual(["big"]);
    const [verdict] = plan({ n: 6 }, { waiting: [big], running: [running("r", 1)] });
    expect(verdict).toMatchObject({
      kind: "waiting",
      position: 1,
      reason: "InsufficientCapacity",
      message: "3 of 4 Pods fit the free capacity of the nodes",
    });
  });

  it("admits one of two jobs that each need 60 % of the nodes, and then the other", () => {
    const waiting = [waitingJob("x", { workers: 6, createdAt: 1 }), waitingJob("y", { workers: 6, createdAt: 2 })];
    const first = plan({ n: 5, m: 5 }, { waiting: waiting.map((job) => ({ ...job, gang: gangOf(6, 1, ["n", "m"]) })) });
    expect(admittedIds(first)).toEqual(["x"]);
    expect(verdictOf(first, "y")).toMatchObject({ kind: "waiting", position: 1 });
  });

  it("keeps the reservation of a job while the Pods of the one before it end", () => {
    const ending = new Map([["n", cpus(4)]]);
    const waiting = [
      waitingJob("head", { workers: 2, cpu: 2, createdAt: 1 }),
      waitingJob("small", { workers: 1, cpu: 1, createdAt: 2 }),
    ];
    const verdicts = plan({ n: 4 }, { waiting, ending });
    expect(verdictOf(verdicts, "head")).toMatchObject({ kind: "waiting", position: 1, reason: "InsufficientCapacity" });
    expect(admittedIds(plan({ n: 5 }, { waiting, ending }))).toEqual([]);
    expect(admittedIds(plan({ n: 4 }, { waiting }))).toEqual(["head"]);
  });

  it("spreads workers over nodes, but never splits one", () => {
    const nodes = ["n", "m"];
    expect(admittedIds(plan({ n: 3, m: 3 }, { waiting: [waitingJob("j", { workers: 2, cpu: 3, nodes })] }))).toEqual(["j"]);
    const [verdict] = plan({ n: 3, m: 3 }, { waiting: [waitingJob("j", { workers: 3, cpu: 2, nodes })] });
    expect(verdict).toMatchObject({ kind: "inadmissible", reason: "ExceedsCapacity" });
  });

  it("places the launcher where it costs the fewest workers", () => {
    const job = waitingJob("j", { workers: 2, cpu: 2, nodes: ["n", "m"] });
    const launcher = { requests: cpus(1), nodes: new Set(["n", "m"]) };
    expect(admittedIds(plan({ n: 4, m: 1 }, { waiting: [{ ...job, gang: { ...job.gang, launcher } }] }))).toEqual(["j"]);
    expect(admittedIds(plan({ n: 4, m: 0 }, { waiting: [{ ...job, gang: { ...job.gang, launcher } }] }))).toEqual([]);
  });

  it("admits by quota only if the cluster has no nodes, or if the queue ignores their capacity", () => {
    const waiting = [waitingJob("j", { workers: 8 })];
    expect(admittedIds(planAdmissions({ ...queueState({}), free: undefined, waiting }))).toEqual(["j"]);
    const rules = new Map([["default", { ignoresCapacity: true }]]);
    expect(admittedIds(plan({ n: 1 }, { waiting, rules }))).toEqual(["j"]);
  });

  it("does not let a job that can never fit hold up others", () => {
    const verdicts = plan({ n: 2 }, { waiting: [waitingJob("huge", { workers: 3 }), waitingJob("small", { createdAt: 1 })] });
    expect(admittedIds(verdicts)).toEqual(["small"]);
    expect(verdictOf(verdicts, "huge")).toMatchObject({ kind: "inadmissible", reason: "ExceedsCapacity" });
  });
});

describe("the order of the queue", () => {
  it("puts higher priorities first, then older jobs", () => {
    const waiting = [
      waitingJob("old", { createdAt: 1 }),
      waitingJob("new", { createdAt: 2 }),
      waitingJob("high", { createdAt: 3, priority: 5 }),
    ];
    expect(plan({ n: 1 }, { waiting }).map(({ job }) => job.id)).toEqual(["high", "old", "new"]);
  });

  it("alternates between namespaces, beginning with the one that uses less", () => {
    const jobs = ["a1", "a2", "b1", "b2"].map((id, createdAt) => waitingJob(id, { namespace: id.slice(0, 1), createdAt }));
    const order = (used: RunningJob[]) => plan({ n: 4 }, { waiting: jobs, running: used }).map(({ job }) => job.id);
    expect(order([])).toEqual(["a1", "b1", "a2", "b2"]);
    expect(order([running("r", 2)])).toEqual(["b1", "b2", "a1", "a2"]);
  });

  it("puts a job that has waited for ten minutes before the shares of namespaces", () => {
    const waiting = [waitingJob("a1", { queuedAt: 0 }), waitingJob("b1", { namespace: "b", queuedAt: 600_000, createdAt: 9 })];
    const state = { waiting, running: [running("r", 1)], now: 600_000 };
    expect(plan({ n: 2 }, state).map(({ job }) => job.id)).toEqual(["a1", "b1"]);
    expect(plan({ n: 2 }, { ...state, now: 599_999 }).map(({ job }) => job.id)).toEqual(["b1", "a1"]);
  });
});

describe("backfill", () => {
  const head = waitingJob("head", { workers: 4 });
  const small = (rest: object = {}) => waitingJob("small", { createdAt: 1, ...rest });

  it("starts a later job that ends before the head can start", () => {
    const state = (limitMs?: number) => ({
      waiting: [head, small(limitMs === undefined ? {} : { limitMs })],
      running: [running("r", 2, 60_000)],
    });
    expect(admittedIds(plan({ n: 4 }, state(60_000)))).toEqual(["small"]);
    expect(admittedIds(plan({ n: 4 }, state(60_001)))).toEqual([]);
    expect(verdictOf(plan({ n: 4 }, state()), "small")).toMatchObject({
      position: 2,
      reason: "WaitsForHead",
      message: "could delay head, which is ahead",
    });
  });

  it("starts a later job that leaves enough for the head at its reserved start", () => {
    const state = { waiting: [head, small()], running: [running("r", 3, 60_000)] };
    expect(admittedIds(plan({ n: 5 }, state))).toEqual(["small"]);
  });

  it("takes only what the head cannot use if a running job has no deadline", () => {
    const state = (nodes: string[]) => ({ waiting: [head, small({ nodes, limitMs: 1 })], running: [running("r", 2)] });
    expect(admittedIds(plan({ n: 4, other: 1 }, state(["n"])))).toEqual([]);
    expect(admittedIds(plan({ n: 4, other: 1 }, state(["other"])))).toEqual(["small"]);
    const free = waitingJob("free", { cpu: 0, createdAt: 2 });
    expect(admittedIds(plan({ n: 4 }, { waiting: [head, free], running: [running("r", 2)] }))).toEqual(["free"]);
  });
});

describe("quotas", () => {
  const rules = new Map([
    ["default", { quota: cpus(4), namespaceQuota: cpus(2) }],
    ["held", { isHeld: true }],
    ["team", { namespaces: new Set(["b"]) }],
  ]);

  it("limits a queue and each namespace in it", () => {
    const jobs = ["a1", "a2", "b1", "c1"].map((id, createdAt) =>
      waitingJob(id, { namespace: id.slice(0, 1), workers: 2, createdAt }),
    );
    const verdicts = plan({ n: 100 }, { waiting: jobs, rules });
    expect(admittedIds(verdicts)).toEqual(["a1", "b1"]);
    expect(verdictOf(verdicts, "c1")).toMatchObject({
      reason: "QuotaExceeded",
      message: "queue default: requests 2 cpu, 4 of 4 used",
    });
    const [verdict] = plan({ n: 100 }, { waiting: [waitingJob("a3")], running: [running("r", 2)], rules });
    expect(verdict).toMatchObject({ message: "namespace a in queue default: requests 1 cpu, 2 of 2 used" });
  });

  it("does not let a namespace at its quota hold up another one", () => {
    const waiting = [waitingJob("a1"), waitingJob("b1", { namespace: "b", createdAt: 1 })];
    const verdicts = plan({ n: 100 }, { waiting, running: [running("r", 2)], rules });
    expect(admittedIds(verdicts)).toEqual(["b1"]);
  });

  it("keeps the quota of a queue for its head", () => {
    const waiting = [waitingJob("b1", { namespace: "b", workers: 2 }), waitingJob("c1", { namespace: "c", createdAt: 1 })];
    const verdicts = plan({ n: 100 }, { waiting, running: [running("r", 3)], rules });
    expect(verdictOf(verdicts, "b1")).toMatchObject({ reason: "QuotaExceeded" });
    expect(verdictOf(verdicts, "c1")).toMatchObject({ reason: "WaitsForHead" });
  });

  it.each([
    ["ExceedsQuota", { workers: 3 }],
    ["QueueNotFound", { queue: "other" }],
    ["NamespaceNotAllowed", { queue: "team" }],
  ])("does not admit a job with %s, and gives it no position", (reason, job) => {
    expect(plan({ n: 100 }, { waiting: [waitingJob("j", job)], rules })).toMatchObject([{ kind: "inadmissible", reason }]);
  });

  it("admits no jobs of a held queue, which delay no others", () => {
    const waiting = [waitingJob("j", { queue: "held" }), waitingJob("k", { createdAt: 1 })];
    const verdicts = plan({ n: 1 }, { waiting, rules });
    expect(verdictOf(verdicts, "j")).toMatchObject({ position: 1, reason: "QueueHeld" });
    expect(admittedIds(verdicts)).toEqual(["k"]);
  });

  it("ignores queue names while no MPIQueue exists", () => {
    expect(admittedIds(plan({ n: 1 }, { waiting: [waitingJob("j", { queue: "volcano-queue" })] }))).toEqual(["j"]);
  });
});
