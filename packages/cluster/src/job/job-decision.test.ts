import { Job, type JobObject, Pod } from "@keelson/api-machinery/kinds";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import type { Decision } from "../workload/write.ts";
import { decideJob, decideOrphanedPods } from "./job-decision.ts";

function start(spec: object = {}): World {
  const world = new World();
  const template = { spec: { restartPolicy: "Never", containers: [{ name: "main" }] } };
  world.create(Job, { metadata: { name: "j" }, spec: { template, parallelism: 1, completions: 1, ...spec } });
  return world;
}
const decide = (world: World) => (): Decision => decideJob({ job: world.get(Job, "j"), pods: world.list(Pod) }, world.now);
const settle = (world: World): Decision => world.settle(decide(world), true);
const statusOf = (world: World): NonNullable<JobObject["status"]> => (world.get(Job, "j").status ?? {}) as never;
const names = (world: World): string[] => world.list(Pod).map(({ metadata }) => metadata.name ?? "");
const active = (world: World): string[] =>
  world
    .list(Pod)
    .filter(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined && !["Succeeded", "Failed"].includes(status?.phase ?? ""),
    )
    .map(({ metadata }) => metadata.name ?? "");
const conditions = (world: World): string[] =>
  (statusOf(world).conditions ?? []).map(({ type, status, reason }) => `${type}=${status} ${reason}`);

describe("a Job", () => {
  test("creates a labelled Pod and completes when it has succeeded", () => {
    const world = start();
    settle(world);
    expect(world.list(Pod)).toMatchObject([
      {
        metadata: {
          labels: { "job-name": "j", "batch.kubernetes.io/job-name": "j", "controller-uid": world.get(Job, "j").metadata.uid },
          finalizers: ["batch.kubernetes.io/job-tracking"],
          ownerReferences: [{ kind: "Job", name: "j", controller: true }],
        },
      },
    ]);
    expect(statusOf(world)).toMatchObject({ active: 1, ready: 0, startTime: "2026-01-01T00:00:00Z" });
    world.setPod(names(world)[0] ?? "", "Succeeded");
    settle(world);
    expect(statusOf(world)).toMatchObject({
      succeeded: 1,
      completionTime: "2026-01-01T00:00:00Z",
      uncountedTerminatedPods: {},
    });
    expect(statusOf(world).active).toBeUndefined();
    expect(conditions(world)).toEqual(["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]);
    expect(world.list(Pod)[0]?.metadata.finalizers).toEqual([]);
    expect(world.events.at(-1)).toBe("Completed: Job completed");
  });

  test("runs at most `parallelism` Pods and no more than it needs", () => {
    const world = start({ parallelism: 3, completions: 5 });
    settle(world);
    expect(active(world)).toHaveLength(3);
    for (const name of active(world)) world.setPod(name, "Succeeded");
    settle(world);
    expect(active(world)).toHaveLength(2);
    world.change(Job, "j", { spec: { parallelism: 1 } });
    settle(world);
    expect(active(world)).toHaveLength(1);
    // A surplus Pod is not a failure.
    for (const { metadata } of world.list(Pod)) if (metadata.deletionTimestamp !== undefined) world.end(metadata.name ?? "");
    settle(world);
    expect(statusOf(world).failed).toBeUndefined();
  });

  test("without completions, completes when one Pod has succeeded and none runs", () => {
    const world = start({ parallelism: 2, completions: undefined });
    settle(world);
    const [first, second] = active(world);
    world.setPod(first ?? "", "Succeeded");
    settle(world);
    expect(conditions(world)).toEqual([]);
    expect(active(world)).toEqual([second]);
    world.setPod(second ?? "", "Succeeded");
    settle(world);
    expect(statusOf(world).succeeded).toBe(2);
    expect(conditions(world)).toContain("Complete=True CompletionsReached");
  });

  test("retries after 10 s, 20 s, 40 s and fails beyond backoffLimit", () => {
    const world = start({ backoffLimit: 3 });
    for (const seconds of [10, 20, 40]) {
      settle(world);
      world.setPod(active(world)[0] ?? "", "Failed");
      expect(settle(world).requeueAfterMs).toBe(seconds * 1_000);
      expect(active(world)).toEqual([]);
      world.now += seconds * 1_000;
    }
    settle(world);
    world.setPod(active(world)[0] ?? "", "Failed");
    settle(world);
    expect(statusOf(world).failed).toBe(4);
    expect(conditions(world)).toEqual(["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"]);
    expect(world.events.at(-1)).toBe("BackoffLimitExceeded: Job has reached the specified backoff limit");
  });

  test("counts container restarts against backoffLimit with restartPolicy OnFailure", () => {
    const template = { spec: { restartPolicy: "OnFailure", containers: [{ name: "main" }] } };
    const world = start({ template, backoffLimit: 2 });
    settle(world);
    const restarted = (restartCount: number): void =>
      world.setPod(names(world)[0] ?? "", "Running", false, { containerStatuses: [{ name: "main", restartCount }] });
    restarted(1);
    settle(world);
    expect(conditions(world)).toEqual([]);
    restarted(2);
    settle(world);
    expect(conditions(world)).toEqual(["FailureTarget=True BackoffLimitExceeded"]);
    expect(active(world)).toEqual([]);
    world.end(names(world)[0] ?? "");
    settle(world);
    expect(conditions(world)).toContain("Failed=True BackoffLimitExceeded");
  });

  test("fails at activeDeadlineSeconds once the last Pod has terminated", () => {
    const world = start({ activeDeadlineSeconds: 30 });
    expect(settle(world).requeueAfterMs).toBe(30_000);
    world.now += 30_000;
    settle(world);
    expect(conditions(world)).toEqual(["FailureTarget=True DeadlineExceeded"]);
    expect(statusOf(world).terminating).toBe(1);
    world.setPod(names(world)[0] ?? "", "Failed");
    world.end(names(world)[0] ?? "");
    settle(world);
    expect(conditions(world)).toEqual(["FailureTarget=True DeadlineExceeded", "Failed=True DeadlineExceeded"]);
    expect(statusOf(world)).toMatchObject({ failed: 1, terminating: 0 });
  });

  test("has neither Pods nor startTime while suspended, counts no failures, and restarts its deadline", () => {
    const world = start({ parallelism: 4, completions: 4, backoffLimit: 1, activeDeadlineSeconds: 60 });
    settle(world);
    world.change(Job, "j", { spec: { suspend: true } });
    settle(world);
    expect(active(world)).toEqual([]);
    for (const name of names(world)) world.end(name);
    world.now += 100_000;
    settle(world);
    expect(statusOf(world).startTime).toBeUndefined();
    expect(statusOf(world).failed).toBeUndefined();
    expect(conditions(world)).toEqual(["Suspended=True JobSuspended"]);
    world.change(Job, "j", { spec: { suspend: false } });
    settle(world);
    expect(active(world)).toHaveLength(4);
    expect(conditions(world)).toEqual(["Suspended=False JobResumed"]);
    expect(statusOf(world).startTime).toBe("2026-01-01T00:01:40Z");
    expect(world.events).toEqual(["Suspended: Job suspended", "Resumed: Job resumed"]);
  });

  test("with Indexed completion completes when each index has succeeded once", () => {
    const world = start({ completionMode: "Indexed", parallelism: 3, completions: 4 });
    settle(world);
    const pods = world.list(Pod);
    expect(pods[1]).toMatchObject({
      metadata: {
        annotations: { "batch.kubernetes.io/job-completion-index": "1" },
        labels: { "batch.kubernetes.io/job-completion-index": "1" },
      },
      spec: {
        hostname: "j-1",
        containers: [
          {
            env: [
              {
                name: "JOB_COMPLETION_INDEX",
                valueFrom: { fieldRef: { fieldPath: "metadata.labels['batch.kubernetes.io/job-completion-index']" } },
              },
            ],
          },
        ],
      },
    });
    expect(pods[1]?.metadata.name).toMatch(/^j-1-/);
    world.setPod(pods[0]?.metadata.name ?? "", "Succeeded");
    world.setPod(pods[2]?.metadata.name ?? "", "Succeeded");
    world.setPod(pods[1]?.metadata.name ?? "", "Failed");
    world.now += 10_000;
    settle(world);
    expect(statusOf(world)).toMatchObject({ completedIndexes: "0,2", succeeded: 2, failed: 1, active: 2 });
    expect(
      active(world)
        .map((name) => name.slice(0, 4))
        .toSorted(),
    ).toEqual(["j-1-", "j-3-"]);
    for (const name of active(world)) world.setPod(name, "Succeeded");
    settle(world);
    expect(statusOf(world)).toMatchObject({ completedIndexes: "0-3", succeeded: 4 });
    expect(conditions(world)).toContain("Complete=True CompletionsReached");
  });

  test("fails, ignores or counts a Pod by its podFailurePolicy", () => {
    const rules = [
      { action: "FailJob", onExitCodes: { operator: "In", values: [42] } },
      { action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] },
    ];
    const world = start({ podFailurePolicy: { rules }, backoffLimit: 0 });
    settle(world);
    const first = active(world)[0] ?? "";
    world.setPod(first, "Failed");
    world.change(Pod, first, { status: { conditions: [{ type: "DisruptionTarget", status: "True" }] } });
    settle(world);
    expect(statusOf(world).failed).toBeUndefined();
    world.now += 600_000;
    settle(world);
    const exit = { name: "main", restartCount: 0, state: { terminated: { exitCode: 42 } } };
    world.setPod(active(world)[0] ?? "", "Failed", false, { containerStatuses: [exit] });
    settle(world);
    expect(conditions(world)).toEqual(["FailureTarget=True PodFailurePolicy", "Failed=True PodFailurePolicy"]);
    expect(statusOf(world).conditions?.[1]?.message).toMatch(
      /^Container main for pod default\/j-\d+ failed with exit code 42 matching FailJob rule at index 0$/,
    );
  });

  test("with a success policy completes when one of its rules is met, and stops the other Pods", () => {
    const rules = [{ succeededIndexes: "0-1", succeededCount: 2 }, { succeededIndexes: "2" }];
    const world = start({ completionMode: "Indexed", parallelism: 4, completions: 4, successPolicy: { rules } });
    settle(world);
    const podAt = (index: number): string => active(world).find((name) => name.startsWith(`j-${index}-`)) ?? "";
    world.setPod(podAt(0), "Succeeded");
    settle(world);
    expect(conditions(world)).toEqual([]);
    world.setPod(podAt(2), "Succeeded");
    settle(world);
    expect(conditions(world)).toEqual(["SuccessCriteriaMet=True SuccessPolicy"]);
    expect(active(world)).toEqual([]);
    for (const { metadata } of world.list(Pod)) if (metadata.deletionTimestamp !== undefined) world.end(metadata.name ?? "");
    settle(world);
    expect(conditions(world)).toContain("Complete=True SuccessPolicy");
    expect(statusOf(world).conditions?.at(-1)?.message).toBe("Matched rules at index 1");
  });

  describe("with a backoff limit per index", () => {
    const perIndex = (spec: object = {}): World =>
      start({ completionMode: "Indexed", parallelism: 2, completions: 2, backoffLimitPerIndex: 1, ...spec });
    const fail = (world: World, index: number, status: object = {}): void => {
      settle(world);
      world.setPod(active(world).find((name) => name.startsWith(`j-${index}-`)) ?? "", "Failed", false, status);
    };
    const failureCounts = (world: World): (string | undefined)[] =>
      world
        .list(Pod)
        .filter(({ metadata }) => metadata.name?.startsWith("j-0-"))
        .map(({ metadata }) => metadata.annotations?.["batch.kubernetes.io/job-index-failure-count"]);

    test("retries an index with its own backoff, then fails it and finishes the others", () => {
      const world = perIndex();
      fail(world, 0);
      expect(settle(world).requeueAfterMs).toBe(10_000);
      world.now += 10_000;
      fail(world, 0);
      settle(world);
      expect(failureCounts(world)).toEqual(["0", "1"]);
      expect(statusOf(world)).toMatchObject({ failedIndexes: "0", failed: 2, active: 1 });
      expect(conditions(world)).toEqual([]);
      world.setPod(active(world)[0] ?? "", "Succeeded");
      settle(world);
      expect(conditions(world)).toEqual(["FailureTarget=True FailedIndexes", "Failed=True FailedIndexes"]);
      expect(statusOf(world)).toMatchObject({ completedIndexes: "1", failedIndexes: "0" });
    });

    test("keeps the last failed Pod of an index until its successor continues the count", () => {
      const world = perIndex();
      fail(world, 0);
      settle(world);
      const failed = world.list(Pod).find(({ status }) => status?.phase === "Failed");
      expect(failed?.metadata.finalizers).toEqual(["batch.kubernetes.io/job-tracking"]);
      world.now += 10_000;
      settle(world);
      expect(world.get(Pod, failed?.metadata.name ?? "").metadata.finalizers).toEqual([]);
    });

    test("fails the Job beyond maxFailedIndexes", () => {
      const world = perIndex({ backoffLimitPerIndex: 0, maxFailedIndexes: 0, parallelism: 1, completions: 5 });
      fail(world, 0);
      settle(world);
      expect(conditions(world)).toContain("Failed=True MaxFailedIndexesExceeded");
    });

    test("fails an index immediately by rule FailIndex", () => {
      const rules = [{ action: "FailIndex", onExitCodes: { operator: "In", values: [3] } }];
      const world = perIndex({ podFailurePolicy: { rules } });
      const containerStatuses = [{ name: "main", restartCount: 0, state: { terminated: { exitCode: 3 } } }];
      fail(world, 0, { containerStatuses });
      settle(world);
      expect(statusOf(world)).toMatchObject({ failedIndexes: "0", active: 1 });
    });
  });

  test("is deleted ttlSecondsAfterFinished after it has finished", () => {
    const world = start({ ttlSecondsAfterFinished: 20 });
    settle(world);
    world.setPod(names(world)[0] ?? "", "Succeeded");
    expect(settle(world).requeueAfterMs).toBe(20_000);
    world.now += 20_000;
    world.perform(decide(world)().writes);
    expect(world.list(Job)).toEqual([]);
  });

  test("releases its Pods while it is being deleted", () => {
    const world = start();
    settle(world);
    world.change(Job, "j", { metadata: { finalizers: ["foregroundDeletion"] } });
    world.delete(Job, "j");
    settle(world);
    expect(world.list(Pod)[0]?.metadata.finalizers).toEqual([]);
    expect(world.list(Pod)).toHaveLength(1);
  });

  test("releases its Pods after it was deleted", () => {
    const world = start();
    settle(world);
    world.perform(decideOrphanedPods(world.list(Pod)));
    expect(world.list(Pod)[0]?.metadata.finalizers).toEqual([]);
  });

  test("counts every Pod once, whenever the controller crashes and Pods are deleted", () => {
    const action = fc.record({ kind: fc.constantFrom("succeed", "fail", "delete", "end"), which: fc.nat(9), dies: fc.nat(6) });
    fc.assert(
      fc.property(fc.array(action, { maxLength: 40 }), fc.boolean(), (actions, isIndexed) => {
        const world = start({
          parallelism: 3,
          completions: 6,
          backoffLimit: 1_000,
          ...(isIndexed ? { completionMode: "Indexed" } : {}),
        });
        const succeeded = new Set<string>();
        const failed = new Set<string>();
        const follow = (): void => {
          for (const { metadata, status } of world.list(Pod)) {
            if (!metadata.finalizers?.length) continue;
            const { uid = "" } = metadata;
            if (status?.phase === "Succeeded") succeeded.add(uid);
            else if (status?.phase === "Failed" || metadata.deletionTimestamp !== undefined) failed.add(uid);
          }
        };
        for (const { kind, which, dies } of actions) {
          const pods = world.list(Pod);
          const pod = pods[which % Math.max(pods.length, 1)];
          const name = pod?.metadata.name ?? "";
          const isRunning =
            pod !== undefined && pod.metadata.deletionTimestamp === undefined && pod.status?.phase === undefined;
          if (kind === "succeed" && isRunning) world.setPod(name, "Succeeded");
          if (kind === "fail" && isRunning) world.setPod(name, "Failed");
          if (kind === "delete" && isRunning) world.delete(Pod, name, true);
          if (kind === "end" && pod?.metadata.deletionTimestamp !== undefined) world.end(name);
          follow();
          world.now += 700_000;
          // The controller crashes after some of the writes and resumes from what is stored.
          world.perform(decide(world)().writes.slice(0, dies), true);
        }
        settle(world);
        const status = statusOf(world);
        if (!conditions(world).some((condition) => condition.startsWith("Complete"))) {
          expect(status.failed ?? 0).toBe(failed.size);
          if (!isIndexed) expect(status.succeeded ?? 0).toBe(succeeded.size);
        }
        expect(status.succeeded ?? 0).toBeLessThanOrEqual(6);
      }),
      { numRuns: 150 },
    );
  });
});
