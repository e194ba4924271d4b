import type { DeepReadonly } from "@keelson/api-machinery";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import type { EvaluationContext } from "../../evaluation/evaluate.ts";
import { parseDuration } from "@keelson/api-machinery/time";
import { evaluateOutputs } from "../../templating/outputs.ts";
import { terminalPodError } from "../../functions/pod-health.ts";
import { stringAt } from "../../functions/read.ts";
import { hasProgram } from "../../programs/program-pod.ts";
import { readableResult } from "../../programs/readable-result.ts";
import { stepTarget } from "../../operations/step-objects.ts";
import { describeTarget, type Observation, type Target } from "../../evaluation/target.ts";
import { unknownKindDeadline, unknownKindMessage } from "../../evaluation/unknown-kind.ts";
import { createPodsOf } from "../../evaluation/workload-pods.ts";
import type { RoundVerdict } from "../../verdicts/verdict.ts";
import type { WebhookCall } from "../../webhooks/webhook-runner.ts";
import { iso } from "../test-status.ts";
import { type ConditionDecision, type ConditionInput, decideCondition } from "../condition-decision.ts";
import { defaultStepSeconds, failed, waiting } from "./step-status.ts";
import { programFailure } from "./program-failure.ts";
import { convergence, type KnownObservation, lossOf } from "./step-target.ts";

/** Inputs of a decision about a step. */
export interface StepInput {
  readonly step: DeepReadonly<TestStep>;
  readonly status: DeepReadonly<StepStatus>;
  readonly namespace: string;
  readonly observe: (target: Target) => Observation;
  /** Evaluation context of the step; its `scope` identifies round and step. */
  readonly context: Omit<EvaluationContext, "podsOf">;
}

/** What to do for a step. `Collect`: read the output of its program. `End`: delete the Pod of its program. */
export type StepAct = "Apply" | "Delete" | "Collect" | "End";

/** A decision about a step. */
export interface StepDecision {
  readonly status: DeepReadonly<StepStatus>;
  /** Action to perform on the step's object now. */
  readonly act?: StepAct;
  readonly webhookCalls: readonly WebhookCall[];
  /** Time of the nearest deadline. */
  readonly wakeAtMs?: number;
  /** Outputs of a step that has succeeded. */
  readonly outputs?: Readonly<Record<string, unknown>>;
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
export function decideStep({ step, status, namespace, observe, context: input }: StepInput): StepDecision {
  const target = stepTarget(step, namespace);
  const versionsFor = needsVersions(step, status) ? { versionsFor: input.scope } : {};
  const observation = target === undefined ? undefined : observe({ ...target, ...versionsFor });
  const run: Running = {
    step,
    deadline: Date.parse(status.deadline ?? iso(input.now)),
    context: { ...input, podsOf: createPodsOf(observe, target) },
  };
  // The Pod is deleted once its result is stored.
  if (status.result !== undefined) return decideChecks(withResult(run, readableResult(status.result)), status, [], undefined);
  const napUntil = step.sleep === undefined ? 0 : Date.parse(status.startedAt ?? "") + parseDuration(step.sleep);
  if (input.now < napUntil) {
    const decision = waitOrTimeOut(run, status, `sleeping until ${iso(napUntil)}`);
    return decision.wakeAtMs === undefined ? decision : { ...decision, wakeAtMs: Math.min(napUntil, run.deadline) };
  }
  if (target === undefined || observation === undefined) return decideChecks(run, status, [], undefined);
  if (observation.kind === "unknown-kind") return decideUnknownKind(run, status, target);
  if (status.stage === "Apply") return decideApply(run, status);
  if (observation.kind === "loading") return decideLoading(run, status, target, observation);
  if (hasProgram(step)) return decideRunning(run, status, target, observation);
  const { unbrokenMs, versions } = observation;
  const decision = decideKnown({ ...run, unbrokenMs, versions }, status, target, observation);
  const isUndecided = decision.status.state === status.state && decision.status.stage === status.stage;
  // The objects may have changed since the watch failed.
  if (observation.error === undefined || isUndecided) return decision;
  return decideLoading(run, status, target, { kind: "loading", error: observation.error });
}

/** Whether the condition of the current stage is about every version of the object. */
function needsVersions({ readyCondition, expectations }: DeepReadonly<TestStep>, { stage }: DeepReadonly<StepStatus>): boolean {
  const condition = stage === "Ready" ? readyCondition : expectations;
  return condition?.consistently !== undefined || (condition?.failWhen ?? []).length > 0;
}

/** Adds the result of the program to the variables of checks and outputs. */
const withResult = (run: Running, result: unknown): Running => ({
  ...run,
  context: { ...run.context, variables: { ...run.context.variables, result } },
});

/** Waits until the Pod of a program has ended. */
function decideRunning(
  run: Running,
  status: DeepReadonly<StepStatus>,
  target: Target,
  { objects: [pod], hasSeen }: KnownObservation,
): StepDecision {
  const { now } = run.context;
  if (pod === undefined) {
    const created = status.object?.resourceVersion ?? "";
    if (!hasSeen(created)) return waitOrTimeOut(run, status, `waiting for ${describeTarget(target)}`);
    return decided(failed(status, "TargetLost", `${describeTarget(target)} was deleted while it ran`, now));
  }
  const phase = stringAt(pod, "status", "phase") || "Pending";
  const isOver = phase === "Succeeded" || phase === "Failed";
  if (isOver && now < run.deadline) return { ...decided(status), act: "Collect", wakeAtMs: run.deadline };
  const error = isOver ? undefined : terminalPodError(pod);
  if (error !== undefined) return decided(failed(status, "ProgramFailed", error, now));
  return waitOrTimeOut(run, status, `${describeTarget(target)} is ${phase}`);
}

/** What does not change while a decision is made. */
interface Running {
  readonly step: DeepReadonly<TestStep>;
  readonly deadline: number;
  readonly context: EvaluationContext;
  readonly unbrokenMs?: ConditionInput["unbrokenMs"];
  readonly versions?: ConditionInput["versions"];
}

const decided = (status: DeepReadonly<StepStatus>): StepDecision => ({ status, webhookCalls: [] });

/** Waits until the deadline, then fails. */
function waitOrTimeOut(
  { step, deadline, context: { now } }: Running,
  status: DeepReadonly<StepStatus>,
  message: string,
  lateVerdict: RoundVerdict = "Timeout",
): StepDecision {
  if (now < deadline) return { ...decided(waiting(status, message)), wakeAtMs: deadline };
  const late = `not finished within ${step.timeoutSeconds || defaultStepSeconds} s: ${message}`;
  return decided(failed(status, "Timeout", late, now, lateVerdict));
}

function decideUnknownKind(run: Running, status: DeepReadonly<StepStatus>, target: Target): StepDecision {
  const { now } = run.context;
  const until = Math.min(unknownKindDeadline(target, Date.parse(status.startedAt ?? iso(now))), run.deadline);
  const message = unknownKindMessage(target);
  if (now >= until) return decided(failed(status, "UnknownKind", message, now));
  return { ...decided(waiting(status, message)), wakeAtMs: until };
}

function decideApply(run: Running, status: DeepReadonly<StepStatus>): StepDecision {
  if (run.context.now >= run.deadline) {
    const isOutage = status.unavailableSince !== undefined;
    const message = status.message ?? "the resource has not been applied";
    return waitOrTimeOut(run, status, message, isOutage ? "Inconclusive" : "Timeout");
  }
  return { ...decided(status), act: run.step.resource?.action ?? "Apply", wakeAtMs: run.deadline };
}

function decideLoading(
  run: Running,
  status: DeepReadonly<StepStatus>,
  target: Target,
  { error, isForbidden }: Extract<Observation, { kind: "loading" }>,
): StepDecision {
  if (isForbidden) {
    const message = `cannot read ${describeTarget(target)}: ${error ?? "forbidden"}`;
    return decided(failed(status, "Forbidden", message, run.context.now));
  }
  const message = `cannot read ${describeTarget(target)} yet${error === undefined ? "" : `: ${error}`}`;
  return waitOrTimeOut(run, status, message, "Inconclusive");
}

function decideKnown(
  run: Running,
  before: DeepReadonly<StepStatus>,
  target: Target,
  observation: KnownObservation,
): StepDecision {
  const { now } = run.context;
  let status = before;
  if (status.stage === "Converge") {
    const obstacle = convergence(run.step, status, target, observation);
    if (obstacle?.isLost) return decided(failed(status, "TargetLost", obstacle.message, now));
    if (obstacle !== undefined) return waitOrTimeOut(run, status, obstacle.message);
    const { message: _, ...rest } = status;
    status = { ...rest, stage: "Ready", stageStartedAt: iso(now) };
  }
  return decideChecks(run, status, observation.objects, lossOf(run.step, status, target, observation));
}

/** Checks the ready condition, then the expectations. */
function decideChecks(
  run: Running,
  status: DeepReadonly<StepStatus>,
  objects: KnownObservation["objects"],
  loss: string | undefined,
): StepDecision {
  if (status.stage !== "Ready") return decideExpectations(run, status, objects, loss);
  const decision = decideReady(run, status, objects, loss);
  if (decision.status.stage === "Ready" || decision.status.state === "Failed") return decision;
  return decideExpectations(run, decision.status, objects, loss);
}

function decideReady(
  run: Running,
  status: DeepReadonly<StepStatus>,
  objects: KnownObservation["objects"],
  loss: string | undefined,
): StepDecision {
  const { step, deadline } = run;
  const { now } = run.context;
  if (step.readyCondition === undefined) return decided({ ...status, stage: "Expect", stageStartedAt: iso(now) });
  const maxMs = step.maxTimeToReadySeconds === undefined ? Number.POSITIVE_INFINITY : step.maxTimeToReadySeconds * 1_000;
  const appliedAt = Date.parse(status.appliedAt ?? status.startedAt ?? iso(now));
  const bound = appliedAt + maxMs;
  const { results, until, outcome } = decideCondition({
    ...{ condition: step.readyCondition, progress: status, before: status.readyConditionStatus?.results, objects, loss },
    ...{ unbrokenMs: run.unbrokenMs, versions: run.versions },
    deadline: Math.min(deadline, bound),
    context: { ...run.context, scope: `${run.context.scope}.readyCondition` },
    lateText: "not ready in time",
  });
  const progress = { startedAt: status.stageStartedAt ?? iso(now), deadline: iso(until), results: [...results] };
  if (outcome.kind === "passed") {
    const { message: _, holdsSince, ...rest } = status;
    const readyAt = holdsSince === undefined ? now : Date.parse(holdsSince);
    const timeToReadySeconds = (readyAt - appliedAt) / 1_000;
    if (readyAt > bound) {
      const late = {
        ...rest,
        timeToReadySeconds,
        readyConditionStatus: { ...progress, state: "Failed" as const, finishedAt: iso(now) },
      };
      return decided(failed(late, "TooSlow", `ready after ${timeToReadySeconds} s, later than ${maxMs / 1_000} s`, now));
    }
    const readyConditionStatus = { ...progress, state: "Passed" as const, finishedAt: iso(now) };
    return decided({ ...rest, stage: "Expect", stageStartedAt: iso(now), readyConditionStatus, timeToReadySeconds });
  }
  const isSlow = outcome.kind === "failed" && outcome.reason === "Timeout" && now >= bound;
  const bounded = isSlow
    ? { ...outcome, reason: "TooSlow", message: `not ready within ${maxMs / 1_000} s; ${outcome.message}` }
    : outcome;
  const state = outcome.kind === "failed" ? ("Failed" as const) : ("Running" as const);
  const end = outcome.kind === "failed" ? { finishedAt: iso(now) } : {};
  return afterOutcome({ ...status, readyConditionStatus: { ...progress, state, ...end } }, bounded, now);
}

function decideExpectations(
  run: Running,
  status: DeepReadonly<StepStatus>,
  objects: KnownObservation["objects"],
  loss: string | undefined,
): StepDecision {
  const { step, deadline } = run;
  const { now } = run.context;
  const { results, outcome } = decideCondition({
    ...{ condition: step.expectations, progress: status, before: status.expectationResults, objects, deadline, loss },
    ...{ unbrokenMs: run.unbrokenMs, versions: run.versions },
    context: { ...run.context, scope: `${run.context.scope}.expectations` },
    lateText: "expectations did not hold in time",
  });
  const checked = step.expectations === undefined ? status : { ...status, expectationResults: [...results] };
  const verdict = programFailure(step, status, outcome);
  if (verdict !== undefined) return decided(failed(checked, verdict.reason, verdict.message, now));
  if (outcome.kind !== "passed") return afterOutcome(checked, outcome, now);
  const { message: _, holdsSince: __, ...rest } = checked;
  const outputs = evaluateOutputs(step.outputs ?? [], objects, run.context.variables ?? {});
  if (typeof outputs === "string") return decided(failed(rest, "OutputFailed", outputs, now));
  const succeeded = decided({ ...rest, state: "Succeeded", verdict: "Passed", finishedAt: iso(now) });
  return Object.keys(outputs).length === 0 ? succeeded : { ...succeeded, outputs };
}

/** The decision after a condition that does not hold (yet). */
function afterOutcome(
  status: DeepReadonly<StepStatus>,
  outcome: Exclude<ConditionDecision["outcome"], { kind: "passed" }>,
  now: number,
): StepDecision {
  const { message: _, holdsSince: __, ...rest } = status;
  if (outcome.kind === "failed") return decided(failed(rest, outcome.reason, outcome.message, now));
  const { holdsSince, webhookCalls, wakeAtMs, message } = outcome;
  const held = holdsSince === undefined ? rest : { ...rest, holdsSince };
  return { status: waiting(held, message), webhookCalls, wakeAtMs };
}
