import { describe, expect, it } from "vitest";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import { beginStep, decideStep } from "./step-decision.ts";
import type { Observation } from "../../evaluation/target.ts";

const t0 = Date.UTC(2026, 0, 1);
const lamp = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "a" } };
const lit = { function: "FieldEquals", params: { path: "status.phase", value: "Lit" } };
const created: TestStep = { name: "a", timeoutSeconds: 30, resource: { manifest: lamp } };

/** Decides a step that started at `t0` and whose object has been applied, `seconds` later. */
function decide(step: TestStep, seconds: number, object: object, status: Partial<StepStatus> = { stage: "Converge" }) {
  const observation = { kind: "known", objects: [object], hasSeen: () => true } as Observation;
  return decideStep({
    step,
    status: { ...beginStep({ name: step.name, index: 0, state: "" }, step, t0), ...status },
    namespace: "default",
    observe: () => observation,
    context: { scope: "1/steps[0]", webhookState: () => undefined, now: t0 + seconds * 1_000, webhookTimeoutMs: 10_000 },
  });
}

describe("a step", () => {
  it("is not retried after its deadline and reports the last error", () => {
    const stuck = { stage: "Apply", message: "API unavailable: refused" } as const;
    expect(decide(created, 29, lamp, stuck)).toMatchObject({ act: "Apply", status: { state: "Running" } });
    const late = decide(created, 30, lamp, stuck);
    expect(late).not.toHaveProperty("act");
    expect(late.status).toMatchObject({ state: "Failed", reason: "Timeout" });
    expect(late.status.message).toContain("API unavailable: refused");
  });

  it("converges when observedGeneration has caught up, if the object reports it", () => {
    const seen = (observedGeneration: number) => ({
      ...lamp,
      metadata: { ...lamp.metadata, generation: 2 },
      status: { observedGeneration },
    });
    expect(decide(created, 1, seen(1)).status).toMatchObject({
      state: "Running",
      stage: "Converge",
      message: expect.stringContaining("its controller has observed generation 1 of 2"),
    });
    expect(decide(created, 1, seen(2)).status).toMatchObject({ state: "Succeeded" });
    expect(decide(created, 1, lamp).status).toMatchObject({ state: "Succeeded" });
  });

  it("limits the timeout of a condition to its own deadline", () => {
    const patient: TestStep = { ...created, readyCondition: { timeoutSeconds: 600, allOf: [lit] } };
    expect(decide(patient, 29, lamp)).toMatchObject({ status: { state: "Running" }, wakeAtMs: t0 + 30_000 });
    expect(decide(patient, 30, lamp, { stage: "Ready" }).status).toMatchObject({ state: "Failed", reason: "Timeout" });
  });

  const waitingStep: TestStep = { ...created, expectations: { allOf: [lit] } };
  const applied = { stage: "Expect" as const, object: { name: "a", uid: "u-1" } };
  const observing = (observation: Observation, seconds = 1, step: TestStep = waitingStep) =>
    decideStep({
      step,
      status: { ...beginStep({ name: step.name, index: 0, state: "" }, step, t0), ...applied },
      namespace: "default",
      observe: () => observation,
      context: { scope: "1/steps[0]", webhookState: () => undefined, now: t0 + seconds * 1_000, webhookTimeoutMs: 10_000 },
    }).status;

  it("fails if its object is deleted or recreated while it waits, unless its checks expect that", () => {
    expect(observing({ kind: "known", objects: [], hasSeen: () => true })).toMatchObject({ reason: "TargetLost" });
    const recreated = { ...lamp, metadata: { name: "a", uid: "u-2" } };
    expect(observing({ kind: "known", objects: [recreated], hasSeen: () => true })).toMatchObject({ reason: "TargetLost" });
    const same = { ...lamp, metadata: { name: "a", uid: "u-1" } };
    expect(observing({ kind: "known", objects: [same], hasSeen: () => true })).toMatchObject({ state: "Running" });
    const absent: TestStep = { ...created, expectations: { allOf: [{ function: "ResourceNotExists" }] } };
    expect(observing({ kind: "known", objects: [], hasSeen: () => true }, 1, absent)).toMatchObject({ state: "Succeeded" });
  });

  it("fails immediately if its object cannot be read for lack of permission", () => {
    expect(observing({ kind: "loading", error: "Forbidden: no", isForbidden: true })).toMatchObject({
      state: "Failed",
      reason: "Forbidden",
    });
    expect(observing({ kind: "loading", error: "ServiceUnavailable: later" })).toMatchObject({ state: "Running" });
  });

  it("fails immediately for an unknown kind of a built-in group, and after 10 s for a kind that may still be defined", () => {
    const deployment = { apiVersion: "apps/v1", kind: "Deploymnt", metadata: { name: "a" } };
    const misspelt = observing({ kind: "unknown-kind" }, 0, { ...created, resource: { manifest: deployment } });
    expect(misspelt).toMatchObject({ state: "Failed", reason: "UnknownKind" });
    expect(misspelt.message).toContain("did you mean Deployment?");
    expect(observing({ kind: "unknown-kind" }, 9)).toMatchObject({ state: "Running" });
    expect(observing({ kind: "unknown-kind" }, 10)).toMatchObject({ state: "Failed", reason: "UnknownKind" });
  });
});
