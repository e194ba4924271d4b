import { describe, expect, it } from "vitest";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import type { Observation } from "../../evaluation/target.ts";
import { decideStep } from "./step-decision.ts";
import { beginStep } from "./step-status.ts";

const t0 = Date.UTC(2026, 0, 1);
const lamp = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "a" } };
const lit = { function: "FieldEquals", params: { path: "status.phase", value: "Lit" } };
const waitingStep: TestStep = { name: "a", timeoutSeconds: 30, resource: { manifest: lamp }, expectations: { allOf: [lit] } };
const applied = { stage: "Expect" as const, object: { name: "a", uid: "u-1" } };
/** Decides a step whose object has been applied, `seconds` after its start. */
const observing = (observation: Observation, seconds = 1) =>
  decideStep({
    step: waitingStep,
    status: { ...beginStep({ name: "a", index: 0, state: "" }, waitingStep, t0), ...applied },
    namespace: "default",
    observe: () => observation,
    context: { scope: "1/steps[0]", webhookState: () => undefined, now: t0 + seconds * 1_000, webhookTimeoutMs: 10_000 },
  }).status;

describe("a step", () => {
  describe("with every version of its object", () => {
    const version = (phase: string) => ({ ...lamp, metadata: { name: "a", uid: "u-1" }, status: { phase } });
    const seen = (versions: readonly (object | undefined)[]): Observation =>
      ({ kind: "known", objects: [version("Lit")], hasSeen: () => true, versions }) as unknown as Observation;
    const steady: TestStep = { ...waitingStep, expectations: { allOf: [lit], consistently: "10s" } };
    const holding = { ...applied, holdsSince: new Date(t0).toISOString() };
    const after = (observation: Observation, status: Partial<StepStatus> = holding, step = steady) => {
      const asked: (string | undefined)[] = [];
      const { status: next } = decideStep({
        step,
        status: { ...beginStep({ name: "a", index: 0, state: "" }, step, t0), ...status },
        namespace: "default",
        observe: ({ versionsFor }) => {
          asked.push(versionsFor);
          return observation;
        },
        context: { scope: "1/steps[0]", webhookState: () => undefined, now: t0 + 5_000, webhookTimeoutMs: 10_000 },
      });
      return { ...next, asked };
    };

    it("notices that its checks stopped holding for a moment", () => {
      const lapse = { state: "Failed", reason: "NotConsistent", message: expect.stringContaining("for a moment") };
      expect(after(seen([version("Lit")]))).toMatchObject({ state: "Running", asked: ["1/steps[0]"] });
      expect(after(seen([version("Dark"), version("Lit")]))).toMatchObject(lapse);
      expect(after(seen([undefined, version("Lit")]))).toMatchObject(lapse);
      // It had not begun to hold.
      expect(after(seen([version("Dark"), version("Lit")]), applied)).toMatchObject({ state: "Running" });
    });

    it("notices a check of failWhen that held for a moment", () => {
      const dark = { ...lit, params: { path: "status.phase", value: "Dark" } };
      const careful: TestStep = { ...waitingStep, expectations: { allOf: [lit], failWhen: [dark] } };
      expect(after(seen([version("Lit")]), applied, careful)).toMatchObject({ state: "Succeeded" });
      expect(after(seen([version("Dark"), version("Lit")]), applied, careful)).toMatchObject({ reason: "CheckFailed" });
      expect(after(seen([]), applied, waitingStep)).toMatchObject({ asked: [undefined] });
    });
  });

  describe("whose watch fails", () => {
    const known = (phase: string, more: object = {}): Observation =>
      ({
        kind: "known",
        objects: [{ ...lamp, metadata: { name: "a", uid: "u-1" }, status: { phase } }],
        hasSeen: () => true,
        ...more,
      }) as Observation;
    const error = "Unreachable: connection refused";

    it("neither passes nor fails by what it saw before, and is inconclusive at its deadline", () => {
      expect(observing(known("Lit")).state).toBe("Succeeded");
      expect(observing(known("Lit", { error }))).toMatchObject({ state: "Running", message: expect.stringContaining(error) });
      expect(observing({ ...known("Dark"), objects: [], error } as Observation)).toMatchObject({ state: "Running" });
      expect(observing(known("Lit", { error }), 30)).toMatchObject({ state: "Failed", verdict: "Inconclusive" });
      expect(observing(known("Dark", { error }), 30)).toMatchObject({ state: "Failed", verdict: "Inconclusive" });
    });

    it("keeps its message while its checks do not hold anyway", () => {
      expect(observing(known("Dark", { error }))).toEqual(observing(known("Dark")));
    });

    it("must hold consistently from when every change has been seen again", () => {
      const steady: TestStep = { ...waitingStep, expectations: { allOf: [lit], consistently: "10s" } };
      const held = { ...applied, holdsSince: new Date(t0).toISOString() };
      const after = (seconds: number, unbrokenMs: number) =>
        decideStep({
          step: steady,
          status: { ...beginStep({ name: "a", index: 0, state: "" }, steady, t0), ...held },
          namespace: "default",
          observe: () => known("Lit", { unbrokenMs }),
          context: { scope: "1/steps[0]", webhookState: () => undefined, now: t0 + seconds * 1_000, webhookTimeoutMs: 10_000 },
        });
      expect(after(10, 20_000).status.state).toBe("Succeeded");
      expect(after(10, 4_000)).toMatchObject({
        status: { state: "Running", holdsSince: "2026-01-01T00:00:06.000Z" },
        wakeAtMs: t0 + 16_000,
      });
    });
  });
});
