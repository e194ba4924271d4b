import type { DeepReadonly } from "@keelson/api-machinery";
import { parseDuration } from "@keelson/api-machinery/time";
import type { ExpectationResult, StepCondition } from "../api/expectation.ts";
import { evaluate, type Evaluation, type EvaluationContext, failureOf } from "../evaluation/evaluate.ts";
import type { WebhookCall } from "../webhooks/webhook-runner.ts";
import { iso } from "./test-status.ts";
import type { Resource } from "../functions/function.ts";

/** When a condition started to be checked, and since when it holds. */
export interface ConditionProgress {
  readonly stageStartedAt?: string | undefined;
  readonly holdsSince?: string | undefined;
}

/** Inputs of the decision about a condition. */
export interface ConditionInput {
  readonly condition: DeepReadonly<StepCondition> | undefined;
  readonly progress: ConditionProgress;
  /** Results of the previous evaluation. */
  readonly before: readonly DeepReadonly<ExpectationResult>[] | undefined;
  readonly objects: readonly NonNullable<Resource>[];
  /** How long every change of the objects has been seen, in milliseconds. Default: always. */
  readonly unbrokenMs?: number | undefined;
  /** Versions of the object since the last decision. Default: none are known. */
  readonly versions?: readonly Resource[] | undefined;
  readonly context: EvaluationContext;
  /** Latest deadline of the condition. */
  readonly deadline: number;
  /** How the object was lost, which fails the step unless its checks hold. */
  readonly loss: string | undefined;
  /** Start of the message if the checks did not hold in time. */
  readonly lateText: string;
}

/** A decision about a condition. */
export interface ConditionDecision {
  readonly results: readonly DeepReadonly<ExpectationResult>[];
  /** Deadline of the condition. */
  readonly until: number;
  readonly outcome:
    | { readonly kind: "passed" }
    | { readonly kind: "failed"; readonly reason: string; readonly message: string }
    | {
        readonly kind: "waiting";
        readonly message: string;
        /** Since when the checks hold. */
        readonly holdsSince?: string;
        readonly webhookCalls: readonly WebhookCall[];
        readonly wakeAtMs: number;
      };
}

/** Decides whether a condition holds, can never hold, or may still hold. */
export function decideCondition(input: ConditionInput): ConditionDecision {
  const { condition, progress, before, objects, context, deadline } = input;
  const until = stageDeadline(condition?.timeoutSeconds, progress, deadline);
  const evaluation = evaluate(condition, objects, context);
  const results = withSince(evaluation.results, before, context.now);
  return { results, until, outcome: outcomeOf(input, evaluation, until) };
}

type Outcome = ConditionDecision["outcome"];

function outcomeOf(input: ConditionInput, evaluation: Evaluation, until: number): Outcome {
  const { condition, objects, context, loss, progress, lateText } = input;
  const { now } = context;
  const steadyMs = condition?.consistently === undefined ? 0 : parseDuration(condition.consistently);
  const named = (condition?.failWhen ?? []).map((each, index) =>
    evaluate({ allOf: [each] }, objects, { ...context, scope: `${context.scope}.failWhen[${index}]` }),
  );
  const broken = named.find(({ passed }) => passed)?.results[0] ?? earlierFailure(input);
  if (broken !== undefined) return { kind: "failed", reason: "CheckFailed", message: `failWhen: ${broken.expect} holds` };
  const webhookCalls = [evaluation, ...named].flatMap((each) => each.webhookCalls);
  const wakeAtMs = Math.min(until, ...[evaluation, ...named].map(({ retryAtMs }) => retryAtMs ?? until));
  const unknown = named.filter(({ isPending, isUnanswered }) => isPending || isUnanswered);
  if (evaluation.passed && unknown.length > 0) {
    const message = `waiting for the webhooks of failWhen: ${failureOf(unknown.flatMap(({ results }) => results))}`;
    if (now >= until) return { kind: "failed", reason: "Timeout", message: `${lateText}: ${message}` };
    return { kind: "waiting", message, ...heldSince(progress), webhookCalls, wakeAtMs };
  }
  if (evaluation.passed && steadyMs === 0) return { kind: "passed" };
  const lapse = evaluation.passed && progress.holdsSince !== undefined ? lapseOf(input) : undefined;
  if (lapse !== undefined)
    return { kind: "failed", reason: "NotConsistent", message: `the checks stopped holding for a moment: ${lapse}` };
  if (evaluation.passed) return steadyOutcome(input, steadyMs, until);
  const why = failureOf(evaluation.results);
  if (loss !== undefined) return { kind: "failed", reason: "TargetLost", message: loss };
  if (evaluation.isTerminal) return { kind: "failed", reason: "CheckFailed", message: why };
  if (progress.holdsSince !== undefined && !evaluation.isPending) {
    const heldFor = (now - Date.parse(progress.holdsSince)) / 1_000;
    return { kind: "failed", reason: "NotConsistent", message: `the checks stopped holding after ${heldFor} s: ${why}` };
  }
  if (now >= until) return { kind: "failed", reason: "Timeout", message: `${lateText}: ${why}` };
  return { kind: "waiting", message: why, ...heldSince(progress), webhookCalls, wakeAtMs };
}

const heldSince = ({ holdsSince }: ConditionProgress): { readonly holdsSince?: string } =>
  holdsSince === undefined ? {} : { holdsSince };

/** How an earlier version of the object is evaluated: its Pods at that time are not known. */
const contextOf = ({ context }: ConditionInput): EvaluationContext => ({ ...context, podsOf: () => undefined });

const objectsOf = (version: Resource): readonly NonNullable<Resource>[] => (version === undefined ? [] : [version]);

/** Why the condition did not hold for a version of the object since the last decision. */
function lapseOf(input: ConditionInput): string | undefined {
  for (const version of input.versions ?? []) {
    const { passed, isPending, results } = evaluate(input.condition, objectsOf(version), contextOf(input));
    if (!passed && !isPending) return failureOf(results);
  }
  return undefined;
}

/** A check of `failWhen` that held for a version of the object since the last decision. */
function earlierFailure(input: ConditionInput): ExpectationResult | undefined {
  const { versions = [], condition } = input;
  for (const each of condition?.failWhen ?? [])
    for (const version of versions) {
      const { passed, results } = evaluate({ allOf: [each] }, objectsOf(version), contextOf(input));
      if (passed) return results[0];
    }
  return undefined;
}

/** Times of a watch and of a test are read one after the other. */
const clockToleranceMs = 50;

/**
 * The outcome of a condition that holds and must keep holding. What happened before every change was seen, such as before a restart of the
 * operator, does not count.
 */
function steadyOutcome({ progress, unbrokenMs, context: { now } }: ConditionInput, steadyMs: number, until: number): Outcome {
  const { holdsSince = "" } = progress;
  const held = holdsSince === "" ? now : Date.parse(holdsSince);
  const seenSince = unbrokenMs === undefined ? held : Math.floor(now - unbrokenMs);
  const since = seenSince > held + clockToleranceMs ? seenSince : held;
  const steadyAt = since + steadyMs;
  if (now >= steadyAt) return { kind: "passed" };
  const message = `the checks hold since ${iso(since)} and must keep holding for ${steadyMs / 1_000} s`;
  if (now >= until) return { kind: "failed", reason: "Timeout", message };
  return { kind: "waiting", message, holdsSince: iso(since), webhookCalls: [], wakeAtMs: Math.min(until, steadyAt) };
}

/** Adds since when each check has not held with its actual value. */
function withSince(
  results: readonly ExpectationResult[],
  before: readonly DeepReadonly<ExpectationResult>[] | undefined,
  now: number,
): readonly DeepReadonly<ExpectationResult>[] {
  return results.map((result, index) => {
    if (result.passed) return result;
    const last = before?.[index];
    const isSame = last !== undefined && !last.passed && last.expect === result.expect && last.actual === result.actual;
    return { ...result, since: (isSame ? last.since : undefined) ?? iso(now) };
  });
}

/** Deadline of a stage, capped by the deadline of the step. */
function stageDeadline(seconds: number | undefined, { stageStartedAt = "" }: ConditionProgress, deadline: number): number {
  return seconds ? Math.min(Date.parse(stageStartedAt) + seconds * 1_000, deadline) : deadline;
}
