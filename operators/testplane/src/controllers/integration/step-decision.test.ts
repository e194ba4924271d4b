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
});
