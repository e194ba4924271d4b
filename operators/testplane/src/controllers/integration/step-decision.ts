import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import { numberAt, stringAt, valueAt } from "../../functions/read.ts";
import type { WebhookAsk } from "../../webhooks/webhook-runner.ts";
import { cut, evaluate, type EvaluationContext, failureOf } from "../../evaluation/evaluate.ts";
import { nameOf, type Observation, type Target, targetOf } from "../../evaluation/target.ts";

/** How long a step may take where it does not say it. */
export const defaultStepSeconds = 600;

/** How long a kind that nobody serves is waited for: its definition may have been applied just before the test. */
const unknownKindGraceMs = 10_000;

/** What a step is decided with. */
export interface StepInput {
  readonly step: DeepReadonly<TestStep>;
  readonly status: DeepReadonly<StepStatus>;
  readonly namespace: string;
  readonly observe: (target: Target) => Observation;
  /** `scope` is of the round; the step adds its own. */
  readonly context: EvaluationContext;
}

/** What follows for a step. */
export interface StepDecision {
  readonly status: DeepReadonly<StepStatus>;
  /** What to do to the step's object now. */
  readonly act?: "Apply" | "Delete";
  readonly asks: readonly WebhookAsk[];
  /** When to look again, whatever happens. */
  readonly wakeAtMs?: number;
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** The status of a step that begins now. */
export function beginStep(
  status: DeepReadonly<StepStatus>,
  step: DeepReadonly<TestStep>,
  now: number,
): DeepReadonly<StepStatus> {
  return {
    name: status.name,
    index: status.index,
    state: "Running",
    stage: step.resource?.manifest === undefined ? (step.resource === undefined ? "Ready" : "Converge") : "Apply",
    startedAt: iso(now),
    stageStartedAt: iso(now),
    deadline: iso(now + (step.timeoutSeconds || defaultStepSeconds) * 1_000),
  };
}

/** What came of acting on a step's object. */
export type ActOutcome =
  | { readonly kind: "done"; readonly object: NonNullable<StepStatus["object"]> }
  | { readonly kind: "failed"; readonly reason: string; readonly message: string }
  /** Nobody could be asked: it is tried again until the step's time is up. */
  | { readonly kind: "unavailable"; readonly message: string };

/** The status of a step after its object was acted on. */
export function afterAct(status: DeepReadonly<StepStatus>, outcome: ActOutcome, now: number): DeepReadonly<StepStatus> {
  switch (outcome.kind) {
    case "done": {
      const { message: _, ...rest } = status;
      return { ...rest, applied: true, stage: "Converge", stageStartedAt: iso(now), object: outcome.object };
    }
    case "failed":
      return failed(status, outcome.reason, outcome.message, now);
    case "unavailable":
      return { ...status, message: cut(`API unavailable: ${outcome.message}`, 1024) };
  }
}

/** A step that has failed. */
export function failed(
  status: DeepReadonly<StepStatus>,
  reason: string,
  message: string,
  now: number,
): DeepReadonly<StepStatus> {
  return { ...status, state: "Failed", reason, message: cut(message, 1024), finishedAt: iso(now) };
}

/**
 * What follows for a step that runs, as far as it gets with what is known:
 *
 * ```text
 *   Apply --acted--> Converge --converged--> Ready --holds--> Expect --holds--> Succeeded
 *     \________________ deadline, refusal, a check that can never hold ________/ -> Failed
 * ```
 *
 * At the deadline the checks have a last say: what holds at that moment has held.
 */
export function decideStep({ step, status: before, namespace, observe, context }: StepInput): StepDecision {
  const { now } = context;
  let status = before;
  const deadline = Date.parse(status.deadline ?? iso(now));
  const isLate = now >= deadline;
  const timeOut = (what: string): StepDecision => ({
    status: failed(status, "Timeout", `not done within ${step.timeoutSeconds || defaultStepSeconds} s: ${what}`, now),
    asks: [],
  });

  if (status.stage === "Apply") {
    if (isLate) return timeOut(status.message ?? "its resource was not applied");
    return { status, act: step.resource?.action ?? "Apply", asks: [], wakeAtMs: deadline };
  }

  let objects: Extract<Observation, { kind: "known" }>["objects"] = [];
  if (step.resource !== undefined) {
    const target = targetOf(step.resource, namespace);
    const observation = observe(target);
    if (observation.kind === "unknown-kind") {
      const until = Math.min(Date.parse(status.startedAt ?? iso(now)) + unknownKindGraceMs, deadline);
      const message = `no kind ${target.kind} of ${target.apiVersion} is served`;
      if (now >= until) return { status: failed(status, "UnknownKind", message, now), asks: [] };
      return { status: waiting(status, message), asks: [], wakeAtMs: until };
    }
    if (observation.kind === "loading") {
      const message = `${nameOf(target)} is not known yet${observation.error === undefined ? "" : `: ${observation.error}`}`;
      return isLate ? timeOut(message) : { status: waiting(status, message), asks: [], wakeAtMs: deadline };
    }
    objects = observation.objects;
    if (status.stage === "Converge") {
      const obstacle = convergence(step, status, target, observation);
      if (obstacle?.isLost) return { status: failed(status, "TargetLost", obstacle.message, now), asks: [] };
      if (obstacle !== undefined) {
        return isLate ? timeOut(obstacle.message) : { status: waiting(status, obstacle.message), asks: [], wakeAtMs: deadline };
      }
      const { message: _, ...rest } = status;
      status = { ...rest, stage: "Ready", stageStartedAt: iso(now) };
    }
  }

  if (status.stage === "Ready") {
    const decision = decideReady({ step, status, objects, context, deadline });
    if (decision.status.stage === "Ready" || decision.status.state === "Failed") return decision;
    status = decision.status;
  }
  return decideExpectations({ step, status, objects, context, deadline });
}

interface CheckInput {
  readonly step: DeepReadonly<TestStep>;
  readonly status: DeepReadonly<StepStatus>;
  readonly objects: Extract<Observation, { kind: "known" }>["objects"];
  readonly context: EvaluationContext;
  readonly deadline: number;
}

/** When a stage with a time of its own is over: never after the step. */
function stageDeadline(seconds: number | undefined, status: DeepReadonly<StepStatus>, deadline: number): number {
  return seconds ? Math.min(Date.parse(status.stageStartedAt ?? "") + seconds * 1_000, deadline) : deadline;
}

function decideReady({ step, status, objects, context, deadline }: CheckInput): StepDecision {
  const { now } = context;
  if (step.readyCondition === undefined) return { status: { ...status, stage: "Expect", stageStartedAt: iso(now) }, asks: [] };
  const until = stageDeadline(step.readyCondition.timeoutSeconds, status, deadline);
  const evaluation = evaluate(step.readyCondition, objects, { ...context, scope: `${context.scope}.readyCondition` });
  const { message: _, ...rest } = status;
  const ready = {
    startedAt: status.stageStartedAt ?? iso(now),
    deadline: iso(until),
    results: [...evaluation.results],
  };
  if (evaluation.passed) {
    const readyConditionStatus = { ...ready, state: "Passed" as const, finishedAt: iso(now) };
    return { status: { ...rest, stage: "Expect", stageStartedAt: iso(now), readyConditionStatus }, asks: [] };
  }
  const why = failureOf(evaluation.results);
  if (evaluation.isFinal || now >= until) {
    const readyConditionStatus = { ...ready, state: "Failed" as const, finishedAt: iso(now) };
    const reason = evaluation.isFinal ? "CheckFailed" : "Timeout";
    const text = evaluation.isFinal ? why : `not ready in time: ${why}`;
    return { status: failed({ ...rest, readyConditionStatus }, reason, text, now), asks: [] };
  }
  return {
    status: waiting({ ...rest, readyConditionStatus: { ...ready, state: "Running" } }, why),
    asks: evaluation.asks,
    wakeAtMs: Math.min(until, evaluation.againAtMs ?? until),
  };
}

function decideExpectations({ step, status, objects, context, deadline }: CheckInput): StepDecision {
  const { now } = context;
  const until = stageDeadline(step.expectations?.timeoutSeconds, status, deadline);
  const evaluation = evaluate(step.expectations, objects, { ...context, scope: `${context.scope}.expectations` });
  const { message: _, ...rest } = status;
  const checked = {
    ...rest,
    ...(step.expectations === undefined ? {} : { expectationResults: [...evaluation.results] }),
  };
  if (evaluation.passed) return { status: { ...checked, state: "Succeeded", finishedAt: iso(now) }, asks: [] };
  const why = failureOf(evaluation.results);
  if (evaluation.isFinal) return { status: failed(checked, "CheckFailed", why, now), asks: [] };
  if (now >= until) return { status: failed(checked, "Timeout", `expectations do not hold in time: ${why}`, now), asks: [] };
  return {
    status: waiting(checked, why),
    asks: evaluation.asks,
    wakeAtMs: Math.min(until, evaluation.againAtMs ?? until),
  };
}

function waiting(status: DeepReadonly<StepStatus>, message: string): DeepReadonly<StepStatus> {
  const next = { ...status, message: cut(message, 1024) };
  return jsonEquals(next, status) ? status : next;
}

/** What keeps an object from having converged; `undefined` when nothing does. */
function convergence(
  step: DeepReadonly<TestStep>,
  status: DeepReadonly<StepStatus>,
  target: Target,
  { objects, hasSeen }: Extract<Observation, { kind: "known" }>,
): { readonly message: string; readonly isLost?: boolean } | undefined {
  // Looking is all that a selector does: its checks see also that there is nothing.
  if (step.resource?.manifest === undefined) return undefined;
  const [object] = objects;
  const applied = status.object;
  if (step.resource.action === "Delete") {
    if (object === undefined) return undefined;
    const finalizers = valueAt(object, "metadata", "finalizers");
    const held =
      Array.isArray(finalizers) && finalizers.length > 0 ? `; it waits for its finalizers ${finalizers.join(", ")}` : "";
    const again =
      applied?.uid !== undefined && stringAt(object, "metadata", "uid") !== applied.uid
        ? "; it was deleted and made again"
        : "";
    return { message: `${nameOf(target)} is still there${held}${again}` };
  }
  if (applied?.resourceVersion !== undefined && !hasSeen(applied.resourceVersion)) {
    return { message: `waits to see what was applied to ${nameOf(target)}` };
  }
  if (object === undefined) return { message: `${nameOf(target)} was applied and is gone`, isLost: true };
  const generation = numberAt(object, ["metadata", "generation"], 0);
  const observed = valueAt(object, "status", "observedGeneration");
  if (typeof observed !== "number" || observed >= generation) return undefined;
  return { message: `${nameOf(target)}: its controller has seen generation ${observed} of ${generation}` };
}
