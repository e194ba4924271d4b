import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { decideLoadTest } from "./load-test-decision.ts";
import type { LoadTestAct } from "./load-test-input.ts";
import type { Observation } from "../../evaluation/target.ts";

const manifest = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "desk" } };
const lit = { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] };
const plain: LoadTestSpec = {
  target: { resource: { manifest }, readyCondition: lit },
  workload: { resources: [{ manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "load" } } }] },
  healthCheck: { intervalSeconds: 10, failureThreshold: 3, ...lit },
  durationSeconds: 100,
};

/** Runs the machine alone: a clock, a target, and acts that succeed. */
function simulate(first: LoadTestSpec = plain) {
  let spec = first;
  let generation = 1;
  let now = Date.UTC(2026, 0, 1);
  let status: DeepReadonly<LoadTestStatus> = {};
  let observation: Observation = { kind: "known", objects: [], hasSeen: () => true };
  let wakeAtMs: number | undefined;
  const acts: LoadTestAct[] = [];
  const events: string[] = [];
  const turn = (): void => {
    const decision = decideLoadTest({
      ...{ spec, generation, namespace: "default", status, now },
      observe: () => observation,
      known: () => undefined,
    });
    status = decision.status;
    wakeAtMs = decision.wakeAtMs;
    events.push(...decision.events.map(({ reason }) => reason));
    if (decision.act === undefined) return;
    acts.push(decision.act);
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
    throw new Error("the machine does not come to rest");
  };
  return {
    ...{ acts, events, settle },
    see: (phase: string) => {
      observation = { kind: "known", objects: [{ ...manifest, status: { phase } }], hasSeen: () => true };
    },
    know: (what: Observation) => void (observation = what),
    edit: (next: LoadTestSpec) => {
      spec = next;
      generation += 1;
    },
    wait: (seconds: number) => void (now += seconds * 1_000),
    /** Lets time pass from one wake-up to the next. */
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
  it("applies its target, waits for it, applies its workload, checks on time, and stops the load", () => {
    const test = simulate();
    test.settle();
    expect(test.acts).toEqual(["apply-target"]);
    test.see("Lit");
    expect(test.run(99)).toMatchObject({ phase: "Running", healthCheckStatus: { checkCount: 9, passCount: 9 } });
    expect(test.run(1)).toMatchObject({ phase: "Succeeded", message: "10 of 10 checks held" });
    expect(test.acts).toEqual(["apply-target", "apply-workload", "delete-workload"]);
  });

  it("gives its target no more than its time, though it was never to be seen (regression 13)", () => {
    const test = simulate();
    test.know({ kind: "loading", error: "Forbidden: lamps may not be listed" });
    test.settle();
    test.wait(299);
    expect(test.settle()).toMatchObject({ phase: "Initializing" });
    test.wait(1);
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "ReadyConditionTimeout" });
    expect(test.status.message).toContain("Forbidden: lamps may not be listed");
    expect(test.acts).toEqual(["apply-target"]);
  });

  it("follows no edit, neither while it runs nor after its end (regressions 8 and 14)", () => {
    const test = simulate();
    test.see("Lit");
    test.settle();
    test.edit({ ...plain, durationSeconds: 10, healthCheck: { intervalSeconds: 1, ...lit } });
    expect(test.run(30)).toMatchObject({ phase: "Running", healthCheckStatus: { checkCount: 3 } });
    const ignored = () => test.status.conditions?.find(({ type }) => type === "SpecChangedIgnored")?.status;
    expect(ignored()).toBe("True");
    test.see("Dark");
    expect(test.run(30)).toMatchObject({ phase: "Failed", reason: "HealthCheckFailed" });
    const { length } = test.acts;
    test.edit({ ...plain, durationSeconds: 1 });
    test.settle();
    expect([test.status.phase, test.acts.length, ignored()]).toEqual(["Failed", length, "True"]);
    test.edit(plain);
    test.settle();
    expect(ignored()).toBe("False");
  });

  it("tells when its checks turn, not of every one (regression 20)", () => {
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

  it("fails only when as many checks in a row failed as it may", () => {
    const test = simulate();
    test.see("Lit");
    test.run(10);
    test.see("Dark");
    expect(test.run(20)).toMatchObject({ phase: "Running", healthCheckStatus: { consecutiveFailures: 2 } });
    expect(test.run(10)).toMatchObject({ phase: "Failed", reason: "HealthCheckFailed" });
    expect(test.acts.at(-1)).toBe("delete-workload");
  });

  it("takes nothing known after a restart for no failure of its target", () => {
    const test = simulate();
    test.see("Lit");
    test.run(15);
    test.know({ kind: "loading" });
    test.run(10);
    expect(test.status.healthCheckStatus).toMatchObject({ checkCount: 1, failCount: 0 });
  });

  it("starts no load where a value is missing, and fails at once where its target can never get ready", () => {
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
    for (const { acts } of [missing, dead]) expect(acts).toEqual(["apply-target"]);
  });
});
