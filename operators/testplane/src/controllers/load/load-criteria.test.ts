import { describe, expect, it } from "vitest";
import type { LoadResult } from "../../api/load-result.ts";
import type { LoadTestSpec } from "../../api/load-test.ts";
import { lit, simulate } from "./testing/simulated-load-test.ts";

const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "generator" } };
const spec: LoadTestSpec = {
  target: { resource: { selector: { apiVersion: "example.com/v1", kind: "Lamp", name: "desk" } } },
  workload: { resources: [{ manifest: pod }] },
};
const measured: LoadResult = {
  ...{ source: "K6", state: "Complete", seconds: 10, requests: 1_000, failed: 20, errorPercent: 2, requestsPerSecond: 100 },
  percentiles: [
    { percentile: 95, milliseconds: 50 },
    { percentile: 99, milliseconds: 312 },
  ],
  checksPassed: 90,
  checksFailed: 10,
};

/** The end of a load test with these criteria, whose workload reports `load`. */
function end(successCriteria: NonNullable<LoadTestSpec["successCriteria"]>, load: LoadResult | "none" = measured) {
  const test = simulate({ ...spec, successCriteria });
  test.see("Lit");
  test.settle();
  test.measure(load === "none" ? undefined : load);
  test.work("generator", { status: { phase: "Succeeded", containerStatuses: [] } });
  return test.settle();
}

describe("the success criteria of a LoadTest", () => {
  it.each([
    [{ maxErrorPercent: 2 }, "maxErrorPercent", "2 %"],
    [{ minRequestsPerSecond: 100 }, "minRequestsPerSecond", "100 requests/s"],
    [{ latency: [{ percentile: 99, maxMilliseconds: 312 }] }, "latency p99", "312 ms"],
    [{ minCheckPercent: 90 }, "minCheckPercent", "90 %"],
  ])("%j is met at its limit", (criteria, name, actual) => {
    expect(end(criteria)).toMatchObject({ phase: "Succeeded", criteria: [{ name, actual, state: "Met" }] });
  });

  it.each([
    [{ maxErrorPercent: 1.99 }, "maxErrorPercent is 2 %, must be at most 1.99 %"],
    [{ minRequestsPerSecond: 101 }, "minRequestsPerSecond is 100 requests/s, must be at least 101 requests/s"],
    [
      { latency: [50, 200].map((maxMilliseconds, index) => ({ percentile: index === 0 ? 95 : 99, maxMilliseconds })) },
      "latency p99 is 312 ms, must be at most 200 ms",
    ],
    [{ minCheckPercent: 91 }, "minCheckPercent is 90 %, must be at least 91 %"],
  ])("%j fails the test", (criteria, message) => {
    expect(end(criteria)).toMatchObject({ phase: "Failed", verdict: "Failed", reason: "CriteriaNotMet", message });
  });

  it("judge the error rate by the counts, not by the rounded percentage", () => {
    const oneFailure = { ...measured, requests: 240_000, failed: 1, errorPercent: 0 };
    const message = "maxErrorPercent is 0.000416667 %, must be at most 0 %";
    expect(end({ maxErrorPercent: 0 }, oneFailure)).toMatchObject({ reason: "CriteriaNotMet", message });
    expect(end({ maxErrorPercent: 0.5 }, { ...measured, failed: 0, notSent: 6, requests: 994 })).toMatchObject({
      message: "maxErrorPercent is 0.6 %, must be at most 0.5 %",
    });
    const almost = { ...measured, requestsPerSecond: 99.999_999_9 };
    expect(end({ minRequestsPerSecond: 100 }, almost)).toMatchObject({
      message: "minRequestsPerSecond is 99.9999999 requests/s, must be at least 100 requests/s",
    });
  });

  it("that cannot be judged make the test Inconclusive, never Passed", () => {
    const inconclusive = { phase: "Failed", verdict: "Inconclusive", reason: "ResultMissing" };
    const criteria = { latency: [{ percentile: 99.9, maxMilliseconds: 1_000 }] };
    expect(end(criteria)).toMatchObject({ ...inconclusive, message: "the figures of latency p99.9 are not known" });
    expect(end({ maxErrorPercent: 100 }, "none")).toMatchObject(inconclusive);
    expect(end({ minCheckPercent: 0 }, { ...measured, checksPassed: 0, checksFailed: 0 })).toMatchObject(inconclusive);
    const { failed: _, errorPercent: __, ...withoutFailures } = measured;
    expect(end({ maxErrorPercent: 100 }, withoutFailures)).toMatchObject(inconclusive);
    const { requests: ___, requestsPerSecond: ____, ...withoutRequests } = withoutFailures;
    expect(end({ minRequestsPerSecond: 0 }, withoutRequests)).toMatchObject(inconclusive);
    const idle = { ...measured, requests: 0, failed: 0, errorPercent: 0 };
    expect(end({ maxErrorPercent: 100 }, idle)).toMatchObject(inconclusive);
    expect(end({ maxErrorPercent: 100 }, { ...measured, state: "Partial" })).toMatchObject(inconclusive);
  });

  it("do not blame the target for a latency that a pause of the generator explains", () => {
    const latency = [{ percentile: 99, maxMilliseconds: 200 }];
    const paused = (maxPauseMilliseconds: number) => end({ latency }, { ...measured, maxPauseMilliseconds });
    expect(paused(300)).toMatchObject({
      ...{ phase: "Failed", verdict: "Inconclusive", reason: "ResultMissing" },
      criteria: [{ actual: "312 ms", state: "Unknown" }],
      message: expect.stringMatching(/^latency p99 is 312 ms, must be at most 200 ms, but a worker .* paused for 300 ms/),
    });
    // Fewer than 1 % of the requests were due in what exceeds the limit.
    expect(paused(299)).toMatchObject({ verdict: "Failed", reason: "CriteriaNotMet" });
    expect(end({ latency, maxErrorPercent: 0 }, { ...measured, maxPauseMilliseconds: 300 })).toMatchObject({
      verdict: "Failed",
    });
  });

  it("that are not met weigh more than those that are not known", () => {
    const status = end({ maxErrorPercent: 0, latency: [{ percentile: 50, maxMilliseconds: 1 }] });
    expect(status).toMatchObject({ verdict: "Failed", criteria: [{ state: "NotMet" }, { state: "Unknown" }] });
  });

  it("are judged after the output was stored, which happens once", () => {
    const test = simulate({ ...spec, successCriteria: { maxErrorPercent: 2 } });
    test.see("Lit");
    test.measure(measured);
    test.work("generator", { status: { phase: "Succeeded" } });
    expect(test.settle()).toMatchObject({
      phase: "Succeeded",
      message: "1000 requests (100/s), 2 % failed, p99 312 ms",
    });
    expect(test.actions).toEqual(["apply-workload", "collect-output", "delete-workload"]);
  });
});

describe("maxTargetRestarts", () => {
  const target = (uid: string, restartCount: number) => ({
    metadata: { name: "web", uid },
    status: { containerStatuses: [{ name: "main", restartCount }] },
  });
  const withRestarts: LoadTestSpec = {
    ...spec,
    target: { resource: { selector: { apiVersion: "v1", kind: "Pod", name: "web" } } },
    successCriteria: { maxTargetRestarts: 1 },
    durationSeconds: 60,
  };
  const start = () => {
    const test = simulate(withRestarts);
    test.know({ kind: "known", objects: [target("a", 7)], hasSeen: () => true });
    test.settle();
    expect(test.status).toMatchObject({ phase: "Running", targetRestarts: 0, targetPods: [{ uid: "a", restarts: 7 }] });
    return test;
  };
  const see = (test: ReturnType<typeof start>, ...objects: readonly ReturnType<typeof target>[]) => {
    test.know({ kind: "known", objects, hasSeen: () => true });
    return test.settle();
  };

  it("counts restarts from the start of the load, and fails the test as soon as there are too many", () => {
    const test = start();
    expect(see(test, target("a", 8))).toMatchObject({ phase: "Running", targetRestarts: 1 });
    expect(see(test, target("a", 9))).toMatchObject({ phase: "Failed", reason: "TargetRestarted", targetRestarts: 2 });
  });

  it("counts deleted Pods and restarts of new ones, and never counts down", () => {
    const test = start();
    expect(see(test, target("b", 0))).toMatchObject({ phase: "Running", targetRestarts: 1 });
    expect(see(test, target("a", 7))).toMatchObject({ phase: "Running", targetRestarts: 1 });
    expect(see(test, target("b", 1))).toMatchObject({ phase: "Failed", targetRestarts: 2 });
  });

  it("keeps the restarts of deleted Pods, including of those that were created while the load ran", () => {
    const test = simulate({ ...withRestarts, successCriteria: { maxTargetRestarts: 100 } });
    test.know({ kind: "known", objects: [target("a", 7)], hasSeen: () => true });
    test.settle();
    expect(see(test, target("a", 9))).toMatchObject({ targetRestarts: 2 });
    expect(see(test, target("b", 0))).toMatchObject({ targetRestarts: 3 });
    expect(see(test, target("b", 2))).toMatchObject({ targetRestarts: 5 });
    expect(see(test, target("c", 0))).toMatchObject({ targetRestarts: 6 });
    expect(see(test, target("c", 1))).toMatchObject({ targetRestarts: 7 });
  });

  it("counts sidecars, and no other init containers", () => {
    const test = start();
    const sidecar = {
      ...target("a", 7),
      spec: { initContainers: [{ name: "proxy", restartPolicy: "Always" }, { name: "migrate" }] },
    };
    const initContainerStatuses = [
      { name: "proxy", restartCount: 1 },
      { name: "migrate", restartCount: 5 },
    ];
    const status = { ...sidecar.status, initContainerStatuses };
    expect(see(test, { ...sidecar, status })).toMatchObject({ phase: "Running", targetRestarts: 1 });
  });

  it("passes a target that did not restart more often than allowed", () => {
    const test = start();
    see(test, target("a", 8));
    expect(test.run(60)).toMatchObject({ phase: "Succeeded", criteria: [{ actual: "1 restarts", state: "Met" }] });
  });

  it("makes the test Inconclusive if the Pods were never known", () => {
    const test = simulate({
      ...withRestarts,
      target: { resource: { selector: { apiVersion: "apps/v1", kind: "Deployment", name: "web" } } },
    });
    test.know({ kind: "known", objects: [{ metadata: { name: "web" }, spec: {} }], hasSeen: () => true });
    test.knowPods({ kind: "loading", error: "Forbidden: no" });
    expect(test.run(61)).toMatchObject({ verdict: "Inconclusive", reason: "ResultMissing" });
  });
});

describe("a LoadTest with the built-in generator", () => {
  const generator = { url: "http://web", rate: 10, duration: "60s", requestTimeout: "10s", workers: 2 };
  const withGenerator: LoadTestSpec = { ...spec, workload: { generator } };
  const figures: LoadResult = { ...measured, source: "Generator" };
  const finish = (load: LoadResult | undefined, successCriteria = {}) => {
    const test = simulate({ ...withGenerator, successCriteria });
    test.see("Lit");
    test.settle();
    test.measure(load);
    for (const worker of [0, 1]) test.work(`load-load-${worker}`, { status: { phase: "Succeeded" } });
    return test.settle();
  };

  it("fails by default if a request failed, and tolerates what its criteria allow", () => {
    expect(finish(figures)).toMatchObject({ verdict: "Failed", message: "maxErrorPercent is 2 %, must be at most 0 %" });
    expect(finish({ ...figures, failed: 0, errorPercent: 0 })).toMatchObject({ verdict: "Passed" });
    expect(finish(figures, { maxErrorPercent: 5 })).toMatchObject({ verdict: "Passed" });
  });

  it("is Inconclusive if a worker has not reported, or no request was sent", () => {
    const message = expect.stringContaining("not all workers of the load generator have reported") as unknown;
    for (const load of [undefined, { ...figures, state: "Partial" as const }]) {
      expect(finish(load)).toMatchObject({ verdict: "Inconclusive", reason: "ResultMissing", message });
    }
    expect(finish({ ...figures, requests: 0, failed: 0, errorPercent: 0 })).toMatchObject({ verdict: "Inconclusive" });
  });

  it("fails if a worker fails, and times out if its Pods never start", () => {
    const test = simulate(withGenerator);
    test.see("Lit");
    test.settle();
    const state = { terminated: { exitCode: 1 } };
    test.work("load-load-1", { status: { phase: "Failed", containerStatuses: [{ name: "generator", state }] } });
    expect(test.settle()).toMatchObject({
      reason: "WorkloadFailed",
      message: expect.stringContaining("Pod load-load-1") as unknown,
    });
    const stuck = simulate(withGenerator);
    stuck.see("Lit");
    expect(stuck.run(379)).toMatchObject({ phase: "Running" });
    expect(stuck.run(1)).toMatchObject({ phase: "Failed", verdict: "Timeout", reason: "LoadTimeout" });
  });

  const passing: LoadResult = { ...figures, failed: 0, errorPercent: 0 };
  const beside = (kind: string, apiVersion: string, more: Partial<LoadTestSpec> = {}) => {
    const resources = [{ manifest: { apiVersion, kind, metadata: { name: "extra" } } }];
    const test = simulate({ ...withGenerator, workload: { generator, resources }, ...more });
    test.see("Lit");
    test.measure(passing);
    test.work("extra", { spec: {} });
    test.knowPods({ kind: "known", objects: [], hasSeen: () => true });
    test.settle();
    return test;
  };
  const complete = (test: ReturnType<typeof simulate>): void => {
    for (const worker of [0, 1]) test.work(`load-load-${worker}`, { status: { phase: "Succeeded" } });
  };

  it.each([{}, { healthCheck: { intervalSeconds: 10, failureThreshold: 3, allOf: lit.allOf } }])(
    "is not stopped by durationSeconds, with %j",
    (more) => {
      const test = simulate({ ...withGenerator, durationSeconds: 60, ...more });
      test.see("Lit");
      test.measure(passing);
      expect(test.run(90)).toMatchObject({ phase: "Running" });
      complete(test);
      expect(test.settle()).toMatchObject({ phase: "Succeeded", verdict: "Passed" });
    },
  );

  it("has no time limit once it has completed: the load lasts until the Job next to it has completed", () => {
    const test = beside("Job", "batch/v1");
    test.run(60);
    complete(test);
    expect(test.run(3_600)).toMatchObject({ phase: "Running" });
    test.work("extra", { status: { conditions: [{ type: "Complete", status: "True" }] } });
    expect(test.settle()).toMatchObject({ phase: "Succeeded" });
  });

  it("ends although a Deployment next to it runs for ever, or with the duration", () => {
    const test = beside("Deployment", "apps/v1");
    complete(test);
    expect(test.settle()).toMatchObject({ phase: "Succeeded" });
    const limited = beside("Job", "batch/v1", { durationSeconds: 600 });
    complete(limited);
    expect(limited.run(599)).toMatchObject({ phase: "Running" });
    expect(limited.run(1)).toMatchObject({ phase: "Succeeded" });
  });

  it("has no checks of k6", () => {
    expect(finish(passing, { minCheckPercent: 90 })).toMatchObject({
      reason: "InvalidConfig",
      message: "spec.successCriteria.minCheckPercent: requires k6; the built-in generator has no checks",
    });
  });
});

describe("the progress of a running workload", () => {
  it("is read every 5 s, and not before its Pods were applied or after the test has ended", () => {
    const test = simulate({ ...spec, durationSeconds: 12 });
    test.see("Lit");
    test.run(11);
    expect(test.actions).toEqual(["apply-workload", "read-progress", "read-progress"]);
    expect(test.run(60)).toMatchObject({ phase: "Succeeded" });
    expect(test.status.progress).toBeUndefined();
    expect(test.actions.slice(3)).toEqual(["collect-output", "delete-workload"]);
  });
});
