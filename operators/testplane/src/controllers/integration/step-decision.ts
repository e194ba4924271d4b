import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import { numberAt, stringAt, valueAt } from "../../functions/read.ts";
import type { WebhookCall } from "../../webhooks/webhook-runner.ts";
import { truncate, evaluate, type EvaluationContext, failureOf } from "../../evaluation/evaluate.ts";
import { describeTarget, type Observation, type Target, targetOf } from "../../evaluation/target.ts";
import { createPodsOf } from "../../evaluation/workload-pods.ts";
import { unknownKindDeadline, unknownKindMessage } from "../../evaluation/unknown-kind.ts";

/** Default `timeoutSeconds` of a step. */
export const defaultStepSeconds = 600;

/** Inputs of a decision about a step. */
export interface StepInput {
  readonly step: DeepReadonly<TestStep>;
  readonly status: DeepReadonly<StepStatus>;
  readonly namespace: string;
  readonly observe: (target: Target) => Observation;
  /** Evaluation context of the step; its `scope` identifies round and step. */
  readonly context: Omit<EvaluationContext, "podsOf">;
}

/** A decision about a step. */
export interface StepDecision {
  readonly status: DeepReadonly<StepStatus>;
  /** Action to perform on the step's object now. */
  readonly act?: "Apply" | "Delete";
  readonly webhookCalls: readonly WebhookCall[];
  /** Time of the nearest deadline. */
  readonly wakeAtMs?: number;
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** The status of a step that starts now. */
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

/** Outcome of an action on a step's object. */
export type ActionOutcome =
  | { readonly kind: "done"; readonly object: NonNullable<StepStatus["object"]> }
  | { readonly kind: "failed"; readonly reason: string; readonly message: string }
  /** The API could not be reached. The action is retried until the deadline of the step. */
  | { readonly kind: "unavailable"; readonly message: string };

/** The status of a step after an action on its object. */
export function afterAction(status: DeepReadonly<StepStatus>, outcome: ActionOutcome, now: number): DeepReadonly<StepStatus> {
  switch (outcome.kind) {
    case "done": {
      const { message: _, ...rest } = status;
      return { ...rest, applied: true, stage: "Converge", stageStartedAt: iso(now), object: outcome.object };
    }
    case "failed":
      return failed(status, outcome.reason, outcome.message, now);
    case "unavailable":
      return { ...status, message: truncate(`API unavailable: ${outcome.message}`, 1024) };
  }
}

/** The status of a failed step. */
function failed(status: DeepReadonly<StepStatus>, reason: string, message: string, now: number): DeepReadonly<StepStatus> {
  return { ...status, state: "Failed", reason, message: truncate(message, 1024), finishedAt: iso(now) };
}

/**
 * Advances a running step as far as the observations allow:
 *
 * ```text
 *   Apply --applied--> Converge --converged--> Ready --holds--> Expect --holds--> Succeeded
 *     \________________ deadline, refusal, a check that can never hold ________/ -> Failed
 * ```
 *
 * At the deadline the checks are evaluated once more.
 */
export function decideStep({ step, status: before, namespace, observe, context: input }: StepInput): StepDecision {
  const { now } = input;
  let status = before;
  const target = step.resource === undefined ? undefined : targetOf(step.resource, namespace);
  const observation = target === undefined ? undefined : observe(target);
  const context: EvaluationContext = { ...input, podsOf: createPodsOf(observe, target) };
  const deadline = Date.parse(status.deadline ?? iso(now));
  const isLate = now >= deadline;
  const timeOut = (what: string): StepDecision => ({
    status: failed(status, "Timeout", `not finished within ${step.timeoutSeconds || defaultStepSeconds} s: ${what}`, now),
    webhookCalls: [],
  });

  if (target !== undefined && observation?.kind === "unknown-kind") {
    const until = Math.min(unknownKindDeadline(target, Date.parse(status.startedAt ?? iso(now))), deadline);
    const message = unknownKindMessage(target);
    if (now >= until) return { status: failed(status, "UnknownKind", message, now), webhookCalls: [] };
    return { status: waiting(status, message), webhookCalls: [], wakeAtMs: until };
  }
  if (status.stage === "Apply") {
    if (isLate) return timeOut(status.message ?? "the resource has not been applied");
    return { status, act: step.resource?.action ?? "Apply", webhookCalls: [], wakeAtMs: deadline };
  }

  let objects: KnownObservation["objects"] = [];
  let loss: string | undefined;
  if (target !== undefined && observation?.kind === "loading" && observation.isForbidden) {
    const message = `cannot read ${describeTarget(target)}: ${observation.error ?? "forbidden"}`;
    return { status: failed(status, "Forbidden", message, now), webhookCalls: [] };
  }
  if (target !== undefined && observation !== undefined && observation.kind !== "unknown-kind") {
    if (observation.kind === "loading") {
      const message = `cannot read ${describeTarget(target)} yet${observation.error === undefined ? "" : `: ${observation.error}`}`;
      return isLate ? timeOut(message) : { status: waiting(status, message), webhookCalls: [], wakeAtMs: deadline };
    }
    objects = observation.objects;
    if (status.stage === "Converge") {
      const obstacle = convergence(step, status, target, observation);
      if (obstacle?.isLost) return { status: failed(status, "TargetLost", obstacle.message, now), webhookCalls: [] };
      if (obstacle !== undefined) {
        return isLate
          ? timeOut(obstacle.message)
          : { status: waiting(status, obstacle.message), webhookCalls: [], wakeAtMs: deadline };
      }
      const { message: _, ...rest } = status;
      status = { ...rest, stage: "Ready", stageStartedAt: iso(now) };
    }
    loss = lossOf(step, status, target, observation);
  }

  if (status.stage === "Ready") {
    const decision = decideReady({ step, status, objects, context, deadline, loss });
    if (decision.status.stage === "Ready" || decision.status.state === "Failed") return decision;
    status = decision.status;
  }
  return decideExpectations({ step, status, objects, context, deadline, loss });
}

type KnownObservation = Extract<Observation, { kind: "known" }>;

/** How the object of a step was lost after it was applied, or undefined. */
function lossOf(
  step: DeepReadonly<TestStep>,
  status: DeepReadonly<StepStatus>,
  target: Target,
  { objects }: KnownObservation,
): string | undefined {
  if (step.resource?.manifest === undefined || step.resource.action === "Delete") return undefined;
  const [object] = objects;
  if (object === undefined) return `${describeTarget(target)} was deleted while the step was waiting`;
  const uid = status.object?.uid;
  return uid === undefined || stringAt(object, "metadata", "uid") === uid
    ? undefined
    : `${describeTarget(target)} was deleted and recreated while the step was waiting`;
}

interface CheckInput {
  readonly step: DeepReadonly<TestStep>;
  readonly status: DeepReadonly<StepStatus>;
  readonly objects: KnownObservation["objects"];
  readonly context: EvaluationContext;
  readonly deadline: number;
  /** How the object was lost, which fails the step unless its checks hold. */
  readonly loss: string | undefined;
}

/** Deadline of a stage, capped by the deadline of the step. */
function stageDeadline(seconds: number | undefined, status: DeepReadonly<StepStatus>, deadline: number): number {
  return seconds ? Math.min(Date.parse(status.stageStartedAt ?? "") + seconds * 1_000, deadline) : deadline;
}

function decideReady({ step, status, objects, context, deadline, loss }: CheckInput): StepDecision {
  const { now } = context;
  if (step.readyCondition === undefined)
    return { status: { ...status, stage: "Expect", stageStartedAt: iso(now) }, webhookCalls: [] };
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
    return { status: { ...rest, stage: "Expect", stageStartedAt: iso(now), readyConditionStatus }, webhookCalls: [] };
  }
  const why = failureOf(evaluation.results);
  if (loss !== undefined || evaluation.isTerminal || now >= until) {
    const readyConditionStatus = { ...ready, state: "Failed" as const, finishedAt: iso(now) };
    if (loss !== undefined)
      return { status: failed({ ...rest, readyConditionStatus }, "TargetLost", loss, now), webhookCalls: [] };
    const reason = evaluation.isTerminal ? "CheckFailed" : "Timeout";
    const text = evaluation.isTerminal ? why : `not ready in time: ${why}`;
    return { status: failed({ ...rest, readyConditionStatus }, reason, text, now), webhookCalls: [] };
  }
  return {
    status: waiting({ ...rest, readyConditionStatus: { ...ready, state: "Running" } }, why),
    webhookCalls: evaluation.webhookCalls,
    wakeAtMs: Math.min(until, evaluation.retryAtMs ?? until),
  };
}

function decideExpectations({ step, status, objects, context, deadline, loss }: CheckInput): StepDecision {
  const { now } = context;
  const until = stageDeadline(step.expectations?.timeoutSeconds, status, deadline);
  const evaluation = evaluate(step.expectations, objects, { ...context, scope: `${context.scope}.expectations` });
  const { message: _, ...rest } = status;
  const checked = {
    ...rest,
    ...(step.expectations === undefined ? {} : { expectationResults: [...evaluation.results] }),
  };
  if (evaluation.passed) return { status: { ...checked, state: "Succeeded", finishedAt: iso(now) }, webhookCalls: [] };
  const why = failureOf(evaluation.results);
  if (loss !== undefined) return { status: failed(checked, "TargetLost", loss, now), webhookCalls: [] };
  if (evaluation.isTerminal) return { status: failed(checked, "CheckFailed", why, now), webhookCalls: [] };
  if (now >= until)
    return { status: failed(checked, "Timeout", `expectations did not hold in time: ${why}`, now), webhookCalls: [] };
  return {
    status: waiting(checked, why),
    webhookCalls: evaluation.webhookCalls,
    wakeAtMs: Math.min(until, evaluation.retryAtMs ?? until),
  };
}

function waiting(status: DeepReadonly<StepStatus>, message: string): DeepReadonly<StepStatus> {
  const next = { ...status, message: truncate(message, 1024) };
  return jsonEquals(next, status) ? status : next;
}

/** Why an object has not converged yet, or `undefined`. */
function convergence(
  step: DeepReadonly<TestStep>,
  status: DeepReadonly<StepStatus>,
  target: Target,
  { objects, hasSeen }: KnownObservation,
): { readonly message: string; readonly isLost?: boolean } | undefined {
  // A selector only reads. Its checks also see the absence of objects.
  if (step.resource?.manifest === undefined) return undefined;
  const [object] = objects;
  const applied = status.object;
  if (step.resource.action === "Delete") {
    if (object === undefined) return undefined;
    const finalizers = valueAt(object, "metadata", "finalizers");
    const held = Array.isArray(finalizers) && finalizers.length > 0 ? `; waiting for finalizers ${finalizers.join(", ")}` : "";
    const again =
      applied?.uid !== undefined && stringAt(object, "metadata", "uid") !== applied.uid ? "; it was deleted and recreated" : "";
    return { message: `${describeTarget(target)} still exists${held}${again}` };
  }
  if (applied?.resourceVersion !== undefined && !hasSeen(applied.resourceVersion)) {
    return { message: `waiting for the applied version of ${describeTarget(target)}` };
  }
  if (object === undefined) return { message: `${describeTarget(target)} was deleted after it was applied`, isLost: true };
  const generation = numberAt(object, ["metadata", "generation"], 0);
  const observed = valueAt(object, "status", "observedGeneration");
  if (typeof observed !== "number" || observed >= generation) return undefined;
  return { message: `${describeTarget(target)}: its controller has observed generation ${observed} of ${generation}` };
}
