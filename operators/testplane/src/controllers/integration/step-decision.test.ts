import { describe, expect, it } from "vitest";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import { decideStep } from "./step-decision.ts";
import { beginStep } from "./step-status.ts";
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

  describe("with checks that must hold consistently", () => {
    const steady: TestStep = { ...created, expectations: { consistently: "5s", allOf: [lit] } };
    const shown = (phase: string) => ({ ...lamp, status: { phase } });

    it("succeeds once they held for the duration", () => {
      const first = decide(steady, 2, shown("Lit"), { stage: "Expect" });
      expect(first).toMatchObject({
        status: { state: "Running", holdsSince: "2026-01-01T00:00:02.000Z" },
        wakeAtMs: t0 + 7_000,
      });
      expect(decide(steady, 6.9, shown("Lit"), first.status as StepStatus).status.state).toBe("Running");
      expect(decide(steady, 7, shown("Lit"), first.status as StepStatus).status.state).toBe("Succeeded");
    });

    it("fails as soon as they stop holding", () => {
      const first = decide(steady, 2, shown("Lit"), { stage: "Expect" });
      expect(decide(steady, 5, shown("Off"), first.status as StepStatus).status).toMatchObject({
        state: "Failed",
        verdict: "Failed",
        reason: "NotConsistent",
        message: expect.stringContaining("stopped holding after 3 s"),
      });
    });

    it("times out if the deadline comes before the end of the duration", () => {
      const first = decide(steady, 27, shown("Lit"), { stage: "Expect" });
      expect(first.wakeAtMs).toBe(t0 + 30_000);
      expect(decide(steady, 30, shown("Lit"), first.status as StepStatus).status).toMatchObject({ reason: "Timeout" });
    });
  });

  it("fails immediately if one of its failWhen checks holds", () => {
    const step: TestStep = {
      ...created,
      expectations: { allOf: [lit], failWhen: [{ cel: "object.status.phase == 'Broken'" }] },
    };
    expect(decide(step, 1, { ...lamp, status: { phase: "Off" } }, { stage: "Expect" }).status.state).toBe("Running");
    expect(decide(step, 1, { ...lamp, status: { phase: "Broken" } }, { stage: "Expect" }).status).toMatchObject({
      state: "Failed",
      reason: "CheckFailed",
      message: "failWhen: object.status.phase == 'Broken' holds",
    });
  });

  it("fails if a failWhen check holds, even if the others hold too", () => {
    const expectations = { allOf: [{ cel: "true" }], failWhen: [{ cel: "false" }, { cel: "object.status.phase == 'Broken'" }] };
    const step: TestStep = { ...created, expectations };
    expect(decide(step, 1, { ...lamp, status: { phase: "Broken" } }, { stage: "Expect" }).status).toMatchObject({
      state: "Failed",
      reason: "CheckFailed",
    });
    expect(decide(step, 1, { ...lamp, status: { phase: "Lit" } }, { stage: "Expect" }).status.state).toBe("Succeeded");
  });

  it("asks the webhooks of failWhen before it passes", () => {
    const failWhen = ["One", "Two"].map((name) => ({ function: name, webhook: "http://host/check" }));
    const step: TestStep = { ...created, expectations: { allOf: [lit], failWhen } };
    const decision = decide(step, 1, { ...lamp, status: { phase: "Lit" } }, { stage: "Expect" });
    expect(decision.status.state).toBe("Running");
    expect(decision.webhookCalls.map((call) => call.function)).toEqual(["One", "Two"]);
    expect(new Set(decision.webhookCalls.map(({ key }) => key)).size).toBe(2);
  });

  it("does not pass while a webhook of failWhen cannot be reached", () => {
    const failWhen = [{ function: "One", webhook: "http://host/check" }];
    const step: TestStep = { ...created, expectations: { allOf: [lit], failWhen } };
    const answer = { kind: "error" as const, message: "connection refused" };
    const at = (seconds: number) =>
      decideStep({
        step,
        status: { ...beginStep({ name: step.name, index: 0, state: "" }, step, t0), stage: "Expect" },
        namespace: "default",
        observe: () =>
          ({ kind: "known", objects: [{ ...lamp, status: { phase: "Lit" } }], hasSeen: () => true }) as Observation,
        context: {
          ...{ scope: "1/steps[0]", now: t0 + seconds * 1_000, webhookTimeoutMs: 10_000 },
          webhookState: () => ({ kind: "answered", ageMs: (seconds - 1) * 1_000, stateVersion: "", answer }),
        },
      });
    expect(at(2)).toMatchObject({ status: { state: "Running" }, webhookCalls: [], wakeAtMs: t0 + 6_000 });
    expect(at(6)).toMatchObject({ status: { state: "Running" }, webhookCalls: [{ function: "One" }] });
    expect(at(30).status).toMatchObject({
      reason: "Timeout",
      message: expect.stringContaining("waiting for the webhooks of failWhen: One: connection refused"),
    });
  });

  it("keeps since when a check has not held with the same value", () => {
    const first = decide(waitingStep, 1, { ...lamp, status: { phase: "Off" } }, { stage: "Expect" }).status as StepStatus;
    expect(first.expectationResults).toMatchObject([{ expected: "Lit", actual: "Off", since: "2026-01-01T00:00:01.000Z" }]);
    const again = decide(waitingStep, 5, { ...lamp, status: { phase: "Off" } }, first).status as StepStatus;
    expect(again.expectationResults).toEqual(first.expectationResults);
    const changed = decide(waitingStep, 6, { ...lamp, status: { phase: "Dim" } }, again).status;
    expect(changed.expectationResults).toMatchObject([{ actual: "Dim", since: "2026-01-01T00:00:06.000Z" }]);
  });

  it("measures the time until it is ready, and fails if that takes too long", () => {
    const bounded: TestStep = { ...created, maxTimeToReadySeconds: 10, readyCondition: { allOf: [lit] } };
    const applied = {
      stage: "Ready" as const,
      appliedAt: "2026-01-01T00:00:02.000Z",
      stageStartedAt: "2026-01-01T00:00:02.000Z",
    };
    const off = { ...lamp, status: { phase: "Off" } };
    const on = { ...lamp, status: { phase: "Lit" } };
    expect(decide(bounded, 6, off, applied)).toMatchObject({ status: { state: "Running" }, wakeAtMs: t0 + 12_000 });
    expect(decide(bounded, 6, on, applied).status).toMatchObject({ state: "Succeeded", timeToReadySeconds: 4 });
    expect(decide(bounded, 12, off, applied).status).toMatchObject({ reason: "TooSlow", verdict: "Failed" });
    expect(decide(bounded, 13, on, applied).status).toMatchObject({ reason: "TooSlow", timeToReadySeconds: 11 });
  });

  it("waits for an object that cannot make progress only if its condition says so", () => {
    const job = { apiVersion: "batch/v1", kind: "Job", metadata: { name: "a" } };
    const failedJob = { ...job, status: { conditions: [{ type: "Failed", status: "True", reason: "BackoffLimitExceeded" }] } };
    const expectations = { allOf: [{ jsonPath: { path: ".status.succeeded", value: 1 } }] };
    const step: TestStep = { name: "a", resource: { manifest: job }, expectations };
    expect(decide(step, 1, failedJob, { stage: "Expect" }).status).toMatchObject({
      reason: "CheckFailed",
      message: expect.stringContaining("the Job failed: BackoffLimitExceeded"),
    });
    const patient: TestStep = { ...step, expectations: { ...expectations, ignoreTerminalStates: true } };
    expect(decide(patient, 1, failedJob, { stage: "Expect" }).status.state).toBe("Running");
  });

  it("is inconclusive if the API or the object could not be read until its deadline", () => {
    expect(observing({ kind: "loading", error: "connection refused" }, 30)).toMatchObject({ verdict: "Inconclusive" });
    const outage = { stage: "Apply", unavailableSince: "2026-01-01T00:00:01.000Z" } as const;
    expect(decide(created, 30, lamp, outage).status).toMatchObject({ reason: "Timeout", verdict: "Inconclusive" });
    expect(decide(created, 30, lamp, { stage: "Apply" }).status).toMatchObject({ reason: "Timeout", verdict: "Timeout" });
  });

  describe("with a program", () => {
    const pod = (status: object) => ({ apiVersion: "v1", kind: "Pod", metadata: { name: "p" }, status });
    const script = { content: "true" };
    const program: TestStep = { name: "a", timeoutSeconds: 30, script, create: { manifests: [pod({})] } };
    const created = { stage: "Converge" as const, object: { name: "p", resourceVersion: "7" } };
    const waiting = (reason: string) => ({ containerStatuses: [{ name: "main", state: { waiting: { reason } } }] });

    it("waits until the Pod has ended, then reads its output", () => {
      expect(decide(program, 1, pod({ phase: "Running" }), created).status.message).toBe("Pod p is Running");
      expect(decide(program, 1, pod({ phase: "Succeeded" }), created)).toMatchObject({ act: "Collect" });
      expect(decide(program, 1, pod({ phase: "Failed" }), created)).toMatchObject({ act: "Collect" });
      expect(decide(program, 30, pod({ phase: "Running" }), created).status).toMatchObject({ reason: "Timeout" });
      expect(decide(program, 1, pod(waiting("ErrImageNeverPull")), created).status).toMatchObject({
        reason: "ProgramFailed",
        message: expect.stringContaining("ErrImageNeverPull"),
      });
    });

    it("fails with the end of its standard error unless it exits with 0", () => {
      const ended = (exitCode: number) => ({
        stage: "Ready" as const,
        result: { exitCode, stdout: "", stderr: "no such host\n" },
      });
      expect(decide(program, 1, pod({}), ended(0)).status.state).toBe("Succeeded");
      expect(decide(program, 1, pod({}), ended(2)).status).toMatchObject({
        verdict: "Failed",
        reason: "ProgramFailed",
        message: "exit code 2: no such host",
      });
    });

    it("fails if the status of a response is not expected, although its checks hold", () => {
      const http = { url: "http://shop/", expectedStatusCodes: [200] };
      const request: TestStep = { ...program, http, expectations: { allOf: [{ cel: "result.stdout == ''" }] } };
      const stderr = "GET http://shop/ responded with HTTP 500, expected 200";
      const ended = (exitCode: number) => ({
        stage: "Ready" as const,
        result: { exitCode, statusCode: exitCode === 0 ? 200 : 500, stdout: "", stderr },
      });
      expect(decide(request, 1, pod({}), ended(0)).status.state).toBe("Succeeded");
      expect(decide(request, 1, pod({}), ended(1)).status).toMatchObject({
        ...{ verdict: "Failed", reason: "UnexpectedStatus", message: stderr },
      });
    });

    it("fails immediately if a check on its result does not hold", () => {
      const result = { exitCode: 3, stdout: "42 requests", stderr: "" };
      const checked = (cel: string): TestStep => ({ ...program, expectations: { allOf: [{ cel }] } });
      const ended = { stage: "Ready" as const, result };
      expect(decide(checked("result.exitCode == 3 && result.stdout.startsWith('42')"), 1, pod({}), ended).status.state).toBe(
        "Succeeded",
      );
      expect(decide(checked("result.exitCode == 0"), 1, pod({}), ended).status).toMatchObject({ reason: "CheckFailed" });
    });
  });
});
