import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { IntegrationTestSpec, IntegrationTestStatus } from "../../api/integration-test.ts";
import { decideIntegrationTest, type IntegrationTestDecision } from "./integration-test-decision.ts";
import { afterAction } from "./step-status.ts";
import type { Observation } from "../../evaluation/target.ts";

const lamp = (name: string) => ({ apiVersion: "example.com/v1", kind: "Lamp", metadata: { name } });
const lit = { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] };
const step = (name: string, more: object = {}) => ({ name, resource: { manifest: lamp(name) }, expectations: lit, ...more });

/** Runs the state machine with a simulated clock, objects by name, and actions that succeed. */
function simulate(spec: IntegrationTestSpec) {
  let now = Date.UTC(2026, 0, 1);
  let status: DeepReadonly<IntegrationTestStatus> = {};
  const objects = new Map<string, Record<string, unknown>>();
  const events: string[] = [];
  const actions: string[] = [];
  let decision: IntegrationTestDecision | undefined;
  let observation: Observation | undefined;
  const turn = (): IntegrationTestDecision => {
    const current = decideIntegrationTest({
      spec,
      generation: 1,
      namespace: "default",
      program: { command: ["tool"] },
      status,
      now,
      webhookState: () => undefined,
      observe: ({ name = "" }) => {
        const object = objects.get(name);
        return observation ?? { kind: "known", objects: object === undefined ? [] : [object], hasSeen: () => true };
      },
    });
    status = current.status;
    events.push(...current.events.map(({ reason }) => reason));
    for (const { index, act } of current.actions) {
      const name = spec.steps[index]?.name ?? "";
      actions.push(`${act} ${name}`);
      if (act === "Apply") objects.set(name, { ...lamp(name), ...objects.get(name) });
      else objects.delete(name);
      const steps = [...(status.steps ?? [])];
      const before = steps[index];
      if (before !== undefined) steps[index] = afterAction(before, { kind: "done", object: { name } }, now);
      status = { ...status, steps };
    }
    decision = current;
    return current;
  };
  return {
    actions,
    events,
    objects,
    /** Decides until the status no longer changes. */
    settle() {
      for (let turns = 0; turns < 100; turns++) {
        const before = status;
        turn();
        if (jsonEquals(before, status)) return status;
      }
      throw new Error("the state machine does not settle");
    },
    turn,
    see(name: string, phase: string) {
      objects.set(name, { ...lamp(name), status: { phase } });
    },
    know(what: Observation | undefined) {
      observation = what;
    },
    wait: (seconds: number) => void (now += seconds * 1_000),
    get status() {
      return status;
    },
    get wakesInMs() {
      return decision?.wakeAtMs === undefined ? undefined : decision.wakeAtMs - now;
    },
  };
}

describe("a Sequential test", () => {
  it("applies a step's object only after the previous step succeeded, and wakes at the nearest deadline", () => {
    const test = simulate({ steps: [step("a", { timeoutSeconds: 30 }), step("b")] });
    test.settle();
    expect(test.actions).toEqual(["Apply a"]);
    expect(test.wakesInMs).toBe(30_000);
    test.see("a", "Lit");
    test.settle();
    expect(test.actions).toEqual(["Apply a", "Apply b"]);
    test.see("b", "Lit");
    expect(test.settle()).toMatchObject({ phase: "Succeeded", completedRounds: 1, currentStepIndex: 1 });
    expect(test.events).toEqual([
      "IntegrationTestStarted",
      "StepStarted",
      "StepSucceeded",
      "StepStarted",
      "StepSucceeded",
      "IntegrationTestSucceeded",
    ]);
  });

  it("fails at the deadline of a step with the pending check and starts no further step", () => {
    const test = simulate({ steps: [step("a", { timeoutSeconds: 30 }), step("b")] });
    test.settle();
    test.wait(30);
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "Timeout", steps: [{ state: "Failed" }, { state: "" }] });
    expect(test.status.message).toContain("FieldEquals: status.phase is absent");
    expect(test.events).toContain("IntegrationTestFailed");
  });

  it("evaluates the checks once more at the deadline", () => {
    const test = simulate({ steps: [step("a", { timeoutSeconds: 30 })] });
    test.settle();
    test.wait(30);
    test.see("a", "Lit");
    expect(test.settle().phase).toBe("Succeeded");
  });

  it("times out while converging and names the finalizers that block a deletion", () => {
    const test = simulate({
      steps: [{ name: "a", resource: { action: "Delete", manifest: lamp("a") }, timeoutSeconds: 5 }],
    });
    test.turn();
    test.turn();
    test.objects.set("a", { ...lamp("a"), metadata: { name: "a", finalizers: ["example.com/hold"] } });
    test.turn();
    test.wait(5);
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "Timeout" });
    expect(test.status.message).toContain("waiting for finalizers example.com/hold");
  });

  it("fails immediately if its object is deleted before it converged", () => {
    const test = simulate({ steps: [step("a")] });
    test.turn();
    test.turn();
    test.objects.delete("a");
    expect(test.settle()).toMatchObject({ phase: "Failed", steps: [{ reason: "TargetLost" }] });
  });

  it("waits until the deadline while the object cannot be read, and reports the error", () => {
    const test = simulate({ steps: [step("a", { timeoutSeconds: 60 })] });
    test.settle();
    test.know({ kind: "loading", error: "Forbidden: no" });
    expect(test.settle().steps?.[0]).toMatchObject({ state: "Running", message: "cannot read Lamp a yet: Forbidden: no" });
    test.wait(60);
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "Timeout" });
  });

  it("applies the timeout of the ready condition", () => {
    const test = simulate({ steps: [step("a", { readyCondition: { timeoutSeconds: 5, ...lit } })] });
    test.settle();
    expect(test.wakesInMs).toBe(5_000);
    test.wait(5);
    expect(test.settle().steps?.[0]).toMatchObject({
      state: "Failed",
      reason: "Timeout",
      readyConditionStatus: { state: "Failed" },
    });
  });

  it("fails immediately if a check can never hold", () => {
    const test = simulate({ steps: [step("a", { expectations: { allOf: [{ function: "JobComplete" }] } })] });
    test.turn();
    test.turn();
    test.objects.set("a", {
      ...lamp("a"),
      status: { conditions: [{ type: "Failed", status: "True", message: "BackoffLimit" }] },
    });
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "StepFailed", steps: [{ reason: "CheckFailed" }] });
  });
});

describe("a Parallel test", () => {
  it("applies all objects together and checks each step independently", () => {
    const test = simulate({ mode: "Parallel", steps: [step("a"), step("b")] });
    test.settle();
    expect(test.actions).toEqual(["Apply a", "Apply b"]);
    test.see("b", "Lit");
    expect(test.settle().steps?.map(({ state }) => state)).toEqual(["Running", "Succeeded"]);
    test.see("a", "Lit");
    expect(test.settle().phase).toBe("Succeeded");
  });

  it("lets the other steps finish after one failed", () => {
    const test = simulate({ mode: "Parallel", steps: [step("a", { timeoutSeconds: 5 }), step("b")] });
    test.settle();
    test.wait(5);
    expect(test.settle()).toMatchObject({ phase: "Running", steps: [{ state: "Failed" }, { state: "Running" }] });
    test.see("b", "Lit");
    expect(test.settle()).toMatchObject({ phase: "Failed", steps: [{ state: "Failed" }, { state: "Succeeded" }] });
  });
});

describe("rounds", () => {
  const failing = (repeat: IntegrationTestSpec["repeat"]) => {
    const test = simulate({ repeat, steps: [step("a", { timeoutSeconds: 5 })] } as IntegrationTestSpec);
    test.settle();
    test.wait(5);
    test.settle();
    return test;
  };

  it("waits for delayBetweenRounds, whatever wakes the test", () => {
    const test = simulate({ repeat: { count: 2, delayBetweenRounds: 60 }, steps: [step("a")] });
    test.settle();
    test.see("a", "Lit");
    expect(test.settle()).toMatchObject({ completedRounds: 1, currentRound: 1 });
    expect(test.wakesInMs).toBe(60_000);
    test.wait(59);
    expect(test.settle().currentRound).toBe(1);
    test.wait(1);
    expect(test.settle()).toMatchObject({ phase: "Succeeded", completedRounds: 2, roundHistory: [{ round: 1 }, { round: 2 }] });
  });

  it("continue after a failure, and the verdict counts it", () => {
    const test = failing({ count: 2 });
    expect(test.status).toMatchObject({ phase: "Running", currentRound: 2, failedRounds: 1 });
    test.see("a", "Lit");
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "Timeout", completedRounds: 2, failedRounds: 1 });
    expect(test.status.message).toMatch(/^1 of 2 rounds failed; round 1: a:/);
  });

  it("stop after the first failure with untilFailure", () => {
    expect(failing({ count: 10, untilFailure: true }).status).toMatchObject({ phase: "Failed", completedRounds: 1 });
  });

  it("stop when maxDurationSeconds expires; an unfinished round has no verdict", () => {
    const test = simulate({ repeat: { maxDurationSeconds: 90, delayBetweenRounds: 60 }, steps: [step("a")] });
    test.settle();
    test.see("a", "Lit");
    test.settle();
    test.wait(60);
    test.objects.delete("a");
    test.settle();
    expect(test.status).toMatchObject({ currentRound: 2, phase: "Running" });
    expect(test.wakesInMs).toBe(30_000);
    test.wait(30);
    expect(test.settle()).toMatchObject({ phase: "Succeeded", completedRounds: 1 });
    expect(test.status.roundHistory?.map(({ outcome }) => outcome)).toEqual(["Succeeded", "Stopped"]);
  });

  it("start no further step after maxDurationSeconds", () => {
    const test = simulate({ repeat: { maxDurationSeconds: 60 }, steps: [step("a"), step("b")] });
    test.settle();
    test.wait(60);
    test.see("a", "Lit");
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "Timeout" });
    expect(test.actions).toEqual(["Apply a"]);
  });

  it("end at maxDurationSeconds even if the next round starts later", () => {
    const test = simulate({ repeat: { maxDurationSeconds: 30, delayBetweenRounds: 60 }, steps: [step("a")] });
    test.settle();
    test.see("a", "Lit");
    test.settle();
    expect(test.wakesInMs).toBe(30_000);
    test.wait(30);
    expect(test.settle()).toMatchObject({ phase: "Succeeded", completedRounds: 1, roundHistory: [{ round: 1 }] });
  });

  it("report the reason of the first failure", () => {
    const test = failing({ count: 2, delayBetweenRounds: 10 });
    test.wait(10);
    test.know({ kind: "known", objects: [], hasSeen: () => true });
    expect(test.settle()).toMatchObject({ phase: "Failed", failedRounds: 2, reason: "Timeout" });
    expect(test.status.message).toMatch(/^2 of 2 rounds failed; round 1: a: Timeout/);
  });

  it("fail if maxDurationSeconds expires before a round finished", () => {
    const test = simulate({ repeat: { maxDurationSeconds: 5 }, steps: [step("a")] });
    test.settle();
    test.wait(5);
    expect(test.settle()).toMatchObject({ phase: "Failed", reason: "Timeout", completedRounds: 0, steps: [{ state: "" }] });
  });

  it("are recorded, the last ten of them", () => {
    const test = simulate({ repeat: { count: 12 }, steps: [{ name: "a", resource: { manifest: lamp("a") } }] });
    expect(test.settle()).toMatchObject({ phase: "Succeeded", completedRounds: 12 });
    expect(test.status.roundHistory?.map(({ round }) => round)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  });
});

describe("final expectations", () => {
  const spec: IntegrationTestSpec = {
    steps: [{ name: "a", resource: { manifest: lamp("a") } }],
    finalExpectations: [
      {
        name: "all lit",
        resource: { selector: { ...lamp(""), name: "b" } as never },
        expectations: { timeoutSeconds: 10, ...lit },
      },
    ],
  };

  it("are checked after all steps succeeded", () => {
    const test = simulate(spec);
    expect(test.settle()).toMatchObject({ phase: "Running", finalExpectations: { state: "Running" } });
    expect(test.wakesInMs).toBe(10_000);
    test.see("b", "Lit");
    expect(test.settle()).toMatchObject({ phase: "Succeeded", finalExpectations: { state: "Passed" } });
  });

  it("fail the round at their deadline", () => {
    const test = simulate(spec);
    test.settle();
    test.wait(10);
    expect(test.settle()).toMatchObject({ phase: "Failed", roundHistory: [{ failedStep: "finalExpectations" }] });
  });
});
