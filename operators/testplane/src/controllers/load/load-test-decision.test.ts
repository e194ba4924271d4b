import { describe, expect, it } from "vitest";
import type { LoadTestSpec } from "../../api/load-test.ts";
import { lit, manifest, plain, simulate } from "./testing/simulated-load-test.ts";

describe("a LoadTest", () => {
  it("applies the target, waits for it, applies the workload, checks on schedule, and stops the load", () => {
    const test = simulate();
    test.settle();
    expect(test.actions).toEqual(["apply-target"]);
    test.see("Lit");
    expect(test.run(99)).toMatchObject({ phase: "Running", healthCheckStatus: { checkCount: 10, passCount: 10 } });
    expect(test.run(1)).toMatchObject({ phase: "Succeeded", message: "11 of 11 checks held" });
    expect(test.actions).toEqual(["apply-target", "apply-workload", "collect-output", "delete-workload"]);
  });

  it("times out even if the target was never readable (regression 13)", () => {
    const test = simulate();
    test.know({ kind: "loading", error: "Forbidden: lamps may not be listed" });
    test.settle();
    test.wait(299);
    expect(test.settle()).toMatchObject({ phase: "Initializing" });
    test.wait(1);
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "ReadyConditionTimeout" });
    expect(test.status.message).toContain("Forbidden: lamps may not be listed");
    expect(test.actions).toEqual(["apply-target"]);
  });

  it("ignores edits while it runs and after it finished (regressions 8 and 14)", () => {
    const test = simulate();
    test.see("Lit");
    test.settle();
    test.edit({ ...plain, durationSeconds: 10, healthCheck: { intervalSeconds: 1, ...lit } });
    expect(test.run(30)).toMatchObject({ phase: "Running", healthCheckStatus: { checkCount: 4 } });
    const ignored = () => test.status.conditions?.find(({ type }) => type === "SpecChangedIgnored")?.status;
    expect(ignored()).toBe("True");
    test.see("Dark");
    expect(test.run(30)).toMatchObject({ phase: "Failed", reason: "HealthCheckFailed" });
    const { length } = test.actions;
    test.edit({ ...plain, durationSeconds: 1 });
    test.settle();
    expect([test.status.phase, test.actions.length, ignored()]).toEqual(["Failed", length, "True"]);
    test.edit(plain);
    test.settle();
    expect(ignored()).toBe("False");
  });

  it("records an event when the result changes, not for every check (regression 20)", () => {
    const test = simulate({ ...plain, durationSeconds: 10_000 });
    test.see("Lit");
    test.run(1_000);
    test.see("Dark");
    test.run(20);
    test.see("Lit");
    test.run(1_000);
    expect(test.events.filter((reason) => reason.startsWith("Expectation"))).toEqual([
      "ExpectationFailed",
      "ExpectationPassed",
    ]);
    expect(test.status.healthCheckStatus).toMatchObject({ failCount: 2, consecutiveFailures: 0 });
  });

  it("fails after failureThreshold consecutive failures", () => {
    const test = simulate();
    test.see("Lit");
    test.run(10);
    test.see("Dark");
    expect(test.run(20)).toMatchObject({ phase: "Running", healthCheckStatus: { consecutiveFailures: 2 } });
    expect(test.run(10)).toMatchObject({ phase: "Failed", reason: "HealthCheckFailed" });
    expect(test.actions.at(-1)).toBe("delete-workload");
  });

  it("does not count a loading watch as a failure of the target", () => {
    const test = simulate();
    test.see("Lit");
    test.run(15);
    test.know({ kind: "loading" });
    test.run(10);
    expect(test.status.healthCheckStatus).toMatchObject({ checkCount: 2, failCount: 0 });
  });

  it("starts no load if a value is missing, and fails immediately if the target can never become ready", () => {
    const missing = simulate({
      ...plain,
      workload: {
        ...plain.workload,
        envInjection: [{ name: "URL", extract: { function: "FieldPath", params: { path: "status.url" } } }],
      },
    });
    missing.see("Lit");
    expect(missing.settle()).toMatchObject({ phase: "Failed", reason: "EnvInjectionFailed" });
    const dead = simulate({
      ...plain,
      target: { resource: { manifest }, readyCondition: { allOf: [{ function: "JobComplete" }] } },
    });
    dead.know({
      kind: "known",
      objects: [{ ...manifest, status: { conditions: [{ type: "Failed", status: "True" }] } }],
      hasSeen: () => true,
    });
    expect(dead.settle()).toMatchObject({ phase: "Failed", reason: "TargetFailed" });
    for (const { actions } of [missing, dead]) expect(actions).toEqual(["apply-target"]);
  });
});

describe("the verdict of a LoadTest", () => {
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "generator" } };
  const withPod: LoadTestSpec = { ...plain, workload: { resources: [{ manifest: pod }] } };
  const terminated = (phase: string, exitCode: number, message?: string) => ({
    status: { phase, containerStatuses: [{ name: "k6", state: { terminated: { exitCode, message } } }] },
  });

  it("is Failed if too few checks held, even if no failureThreshold was reached", () => {
    const spec = { ...plain, durationSeconds: 40, healthCheck: { intervalSeconds: 10, failureThreshold: 100, ...lit } };
    const none = simulate(spec);
    none.see("Lit");
    none.settle();
    none.see("Dark");
    expect(none.run(40)).toMatchObject({ phase: "Failed", reason: "ChecksFailed" });
    const partial = simulate(spec);
    partial.see("Lit");
    partial.run(10);
    partial.see("Dark");
    expect(partial.run(30)).toMatchObject({ phase: "Failed", message: "2 of 5 checks held, but at least 100 % must hold" });
    const tolerant = simulate({ ...spec, successCriteria: { minPassPercent: 40 } });
    tolerant.see("Lit");
    tolerant.run(10);
    tolerant.see("Dark");
    expect(tolerant.run(30)).toMatchObject({ phase: "Succeeded", message: "2 of 5 checks held" });
  });

  it("is Failed as soon as the workload has exited with an error", () => {
    const test = simulate(withPod);
    test.see("Lit");
    test.run(15);
    test.work("generator", terminated("Failed", 1));
    expect(test.settle()).toMatchObject({
      phase: "Failed",
      reason: "WorkloadFailed",
      message: "Pod generator failed: container k6 exited with code 1",
    });
    expect(test.actions.slice(-2)).toEqual(["collect-output", "delete-workload"]);
  });

  it("names the last line of the container's termination message", () => {
    const test = simulate(withPod);
    test.see("Lit");
    test.run(15);
    test.work("generator", terminated("Failed", 1, "Listening\nservice shop.Carts not found\n"));
    expect(test.settle().message).toBe("Pod generator failed: container k6 exited with code 1: service shop.Carts not found");
  });

  it("is Succeeded when the workload has completed, without waiting for the duration", () => {
    const test = simulate({ ...withPod, durationSeconds: 0 });
    test.see("Lit");
    expect(test.run(15)).toMatchObject({ phase: "Running" });
    test.work("generator", terminated("Succeeded", 0));
    expect(test.settle()).toMatchObject({ phase: "Succeeded" });
  });

  it("sets the condition Complete only on success, and Failed on failure", () => {
    const conditions = (phase: string, exitCode: number) => {
      const test = simulate(withPod);
      test.see("Lit");
      test.settle();
      test.work("generator", terminated(phase, exitCode));
      return test.settle().conditions?.filter(({ type }) => type === "Complete" || type === "Failed");
    };
    expect(conditions("Succeeded", 0)).toMatchObject([
      { type: "Complete", status: "True" },
      { type: "Failed", status: "False" },
    ]);
    expect(conditions("Failed", 2)).toMatchObject([
      { type: "Complete", status: "False" },
      { type: "Failed", status: "True" },
    ]);
  });

  it("is Failed immediately if the target was deleted, cannot be read, or is of an unknown built-in kind", () => {
    const lost = simulate();
    lost.settle();
    lost.set({ targetVersion: "1" });
    expect(lost.settle()).toMatchObject({ phase: "Failed", reason: "TargetLost" });
    const forbidden = simulate();
    forbidden.settle();
    forbidden.know({ kind: "loading", error: "Forbidden: no", isForbidden: true });
    expect(forbidden.settle()).toMatchObject({ phase: "Failed", reason: "Forbidden" });
    const unknown = simulate({
      ...plain,
      target: { resource: { manifest: { apiVersion: "apps/v1", kind: "Deploymnt", metadata: { name: "x" } } } },
    });
    unknown.know({ kind: "unknown-kind" });
    expect(unknown.settle()).toMatchObject({ phase: "Failed", reason: "UnknownKind" });
    expect(unknown.status.message).toContain("did you mean Deployment?");
  });
});
