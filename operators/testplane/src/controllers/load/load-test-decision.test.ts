import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { decideLoadTest } from "./load-test-decision.ts";
import type { LoadTestAction } from "./load-test-input.ts";
import type { Observation } from "../../evaluation/target.ts";

const manifest = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "desk" } };
const lit = { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] };
const plain: LoadTestSpec = {
  target: { resource: { manifest }, readyCondition: lit },
  workload: { resources: [{ manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "load" } } }] },
  healthCheck: { intervalSeconds: 10, failureThreshold: 3, ...lit },
  durationSeconds: 100,
};

/** Runs the state machine with a simulated clock, a target, and actions that succeed. */
function simulate(first: LoadTestSpec = plain) {
  let spec = first;
  let generation = 1;
  let now = Date.UTC(2026, 0, 1);
  let status: DeepReadonly<LoadTestStatus> = {};
  let observation: Observation = { kind: "known", objects: [], hasSeen: () => true };
  let wakeAtMs: number | undefined;
  const actions: LoadTestAction[] = [];
  const events: string[] = [];
  const turn = (): void => {
    const decision = decideLoadTest({
      ...{ spec, generation, namespace: "default", status, now },
      observe: () => observation,
      webhookState: () => undefined,
    });
    status = decision.status;
    wakeAtMs = decision.wakeAtMs;
    events.push(...decision.events.map(({ reason }) => reason));
    if (decision.act === undefined) return;
    actions.push(decision.act);
    if (decision.act === "apply-target") status = { ...status, targetApplied: true };
    if (decision.act === "apply-workload") status = { ...status, workloadApplied: true };
    if (decision.act === "delete-workload") status = { ...status, workloadCleaned: true };
  };
  const settle = (): DeepReadonly<LoadTestStatus> => {
    for (let turns = 0; turns < 100; turns++) {
      const before = status;
      turn();
      if (jsonEquals(before, status)) return status;
    }
    throw new Error("the state machine does not settle");
  };
  return {
    ...{ actions, events, settle },
    see: (phase: string) => {
      observation = { kind: "known", objects: [{ ...manifest, status: { phase } }], hasSeen: () => true };
    },
    know: (what: Observation) => void (observation = what),
    edit: (next: LoadTestSpec) => {
      spec = next;
      generation += 1;
    },
    wait: (seconds: number) => void (now += seconds * 1_000),
    /** Advances the clock from one wake-up to the next. */
    run: (seconds: number) => {
      const end = now + seconds * 1_000;
      while (settle().completionTime === undefined && wakeAtMs !== undefined && wakeAtMs <= end) now = wakeAtMs;
      now = end;
      return settle();
    },
    get status() {
      return status;
    },
  };
}

describe("a LoadTest", () => {
  it("applies the target, waits for it, applies the workload, checks on schedule, and stops the load", () => {
    const test = simulate();
    test.settle();
    expect(test.actions).toEqual(["apply-target"]);
    test.see("Lit");
    expect(test.run(99)).toMatchObject({ phase: "Running", healthCheckStatus: { checkCount: 9, passCount: 9 } });
    expect(test.run(1)).toMatchObject({ phase: "Succeeded", message: "10 of 10 checks held" });
    expect(test.actions).toEqual(["apply-target", "apply-workload", "delete-workload"]);
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
    expect(test.run(30)).toMatchObject({ phase: "Running", healthCheckStatus: { checkCount: 3 } });
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
    expect(test.status.healthCheckStatus).toMatchObject({ checkCount: 1, failCount: 0 });
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
