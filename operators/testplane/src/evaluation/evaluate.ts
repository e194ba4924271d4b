import type { DeepReadonly } from "@keelson/api-machinery";
import type { Expectation, ExpectationResult, StepCondition } from "../api/expectation.ts";
import type { CelVariables } from "../assertions/cel-assertion.ts";
import { checkAssertion, expectationName, isAssertion } from "../assertions/check-assertion.ts";
import { terminalState } from "../assertions/terminal-state.ts";
import { type CheckResult, fail, pass, type Resource } from "../functions/function.ts";
import { findCheck } from "../functions/registry.ts";
import { stringAt } from "../functions/read.ts";
import type { WebhookCall, WebhookState } from "../webhooks/webhook-runner.ts";

/** Delay before a failed webhook check is repeated. What a webhook inspects cannot be watched. */
const webhookRetryMs = 5_000;

/** Inputs of an evaluation, except the condition and the objects. */
export interface EvaluationContext {
  /** Identifies the condition within the test and round: `1/steps[0].expectations`. */
  readonly scope: string;
  readonly webhookState: (key: string) => WebhookState | undefined;
  readonly now: number;
  /** What the wall clock, which times of objects are of, is ahead of `now`. Default: 0. */
  readonly wallOffsetMs?: number;
  /** The Pods of a workload; `loading` until they are listed, undefined if they cannot be read. */
  readonly podsOf: (workload: NonNullable<Resource>) => readonly NonNullable<Resource>[] | "loading" | undefined;
  /** Timeout of a webhook call. */
  readonly webhookTimeoutMs: number;
  /** Variables of CEL expressions in addition to `object` and `objects`. */
  readonly variables?: CelVariables;
}

/** Result of a condition. */
export interface Evaluation {
  readonly passed: boolean;
  readonly results: readonly ExpectationResult[];
  /** The condition can never hold again. */
  readonly isTerminal: boolean;
  /** Webhooks to call now. */
  readonly webhookCalls: readonly WebhookCall[];
  /** A webhook has not responded yet, so the result is not known. */
  readonly isPending: boolean;
  /** A webhook could not be called or its response was invalid. Its check does not hold, but the opposite is not known either. */
  readonly isUnanswered: boolean;
  /** When the next webhook call is due, or a check may hold without a change. */
  readonly retryAtMs?: number;
}

/**
 * Evaluates a condition on objects. The condition holds if one object satisfies all of `allOf` and one of `anyOf`. Without
 * objects, the checks see `undefined`.
 */
export function evaluate(
  condition: DeepReadonly<StepCondition> | undefined,
  objects: readonly NonNullable<Resource>[],
  context: EvaluationContext,
): Evaluation {
  const candidates: readonly Resource[] = objects.length === 0 ? [undefined] : objects;
  const evaluations: Evaluation[] = [];
  const all = { ...context, variables: { ...context.variables, objects } };
  for (const candidate of candidates) {
    const evaluation = evaluateOne(condition, candidate, all);
    if (evaluation.passed) return evaluation;
    evaluations.push(evaluation);
  }
  const [first] = evaluations;
  const times = evaluations.flatMap(({ retryAtMs }) => (retryAtMs === undefined ? [] : [retryAtMs]));
  return {
    passed: false,
    results: first?.results ?? [],
    // Another object may still match.
    isTerminal: evaluations.length === 1 && (first?.isTerminal ?? false),
    webhookCalls: evaluations.flatMap(({ webhookCalls }) => webhookCalls),
    isPending: evaluations.some(({ isPending }) => isPending),
    isUnanswered: evaluations.some(({ isUnanswered }) => isUnanswered),
    ...(times.length === 0 ? {} : { retryAtMs: Math.min(...times) }),
  };
}

interface Checked {
  readonly result: CheckResult;
  readonly webhookCall?: WebhookCall;
  readonly isPending?: boolean;
  readonly isUnanswered?: boolean;
  readonly retryAtMs?: number;
}

function evaluateOne(
  condition: DeepReadonly<StepCondition> | undefined,
  resource: Resource,
  context: EvaluationContext,
): Evaluation {
  const tolerates = condition?.ignoreTerminalStates === true;
  const all = (condition?.allOf ?? []).map((each, index) => checkOne(each, resource, `allOf[${index}]`, context, tolerates));
  const any = (condition?.anyOf ?? []).map((each, index) => checkOne(each, resource, `anyOf[${index}]`, context, tolerates));
  const checked = [...all, ...any];
  const times = checked.flatMap(({ retryAtMs }) => (retryAtMs === undefined ? [] : [retryAtMs]));
  const names = [...(condition?.allOf ?? []), ...(condition?.anyOf ?? [])];
  return {
    passed: all.every(({ result }) => result.passed) && (any.length === 0 || any.some(({ result }) => result.passed)),
    results: checked.map(({ result }, index) => summary(expectationName(names[index] ?? {}), result)),
    isTerminal:
      all.some(({ result }) => result.isTerminal) || (any.length > 0 && any.every(({ result }) => result.isTerminal === true)),
    webhookCalls: checked.flatMap(({ webhookCall }) => (webhookCall === undefined ? [] : [webhookCall])),
    isPending: checked.some(({ isPending }) => isPending),
    isUnanswered: checked.some(({ isUnanswered }) => isUnanswered),
    ...(times.length === 0 ? {} : { retryAtMs: Math.min(...times) }),
  };
}

function checkOne(
  expectation: DeepReadonly<Expectation>,
  resource: Resource,
  path: string,
  context: EvaluationContext,
  tolerates: boolean,
): Checked {
  if (expectation.webhook) return checkByWebhook(expectation, expectation.webhook, resource, path, context);
  if (isAssertion(expectation)) {
    const result = checkAssertion(expectation, resource, context.variables ?? {});
    return { result: tolerates ? result : withTerminalState(result, resource, context) };
  }
  const found = findCheck(expectation.function ?? "");
  // Specs are validated before they run, but another version of the operator may have different functions.
  if (found === undefined) return { result: { ...fail(`unknown function ${expectation.function ?? ""}`), isTerminal: true } };
  const pods = found.needsPods && resource !== undefined ? context.podsOf(resource) : undefined;
  if (pods === "loading") return { result: fail("waiting for the list of Pods") };
  const { now, wallOffsetMs = 0 } = context;
  const answer = found.check(resource, expectation.params ?? {}, { now: now + wallOffsetMs, pods });
  const { isTerminal = false, retryAtMs, ...rest } = answer;
  const checked: CheckResult = { ...rest, ...(retryAtMs === undefined ? {} : { retryAtMs: retryAtMs - wallOffsetMs }) };
  if (tolerates) return { result: checked, ...(checked.retryAtMs === undefined ? {} : { retryAtMs: checked.retryAtMs }) };
  const own = isTerminal ? { ...checked, isTerminal } : checked;
  const result = found.isGeneric ? withTerminalState(own, resource, context) : own;
  return { result, ...(result.retryAtMs === undefined ? {} : { retryAtMs: result.retryAtMs }) };
}

/** A failed check of an object that cannot make progress can never hold. */
function withTerminalState(result: CheckResult, resource: Resource, { podsOf }: EvaluationContext): CheckResult {
  if (result.passed || resource === undefined) return result;
  const pods = podsOf(resource);
  const state = terminalState(resource, pods === "loading" ? undefined : pods);
  if (state === undefined) return result;
  return { ...result, message: `${state}; ${result.message ?? ""}`, isTerminal: true };
}

function checkByWebhook(
  expectation: DeepReadonly<Expectation>,
  url: string,
  resource: Resource,
  path: string,
  { scope, webhookState, now, webhookTimeoutMs }: EvaluationContext,
): Checked {
  const key = `${scope}.${path}/${stringAt(resource, "metadata", "name")}`;
  const stateVersion = stringAt(resource, "metadata", "resourceVersion");
  const state = webhookState(key);
  const webhookCall: WebhookCall = {
    key,
    stateVersion,
    url,
    function: expectation.function ?? "",
    params: expectation.params,
    state: resource ?? null,
    timeoutMs: webhookTimeoutMs,
  };
  if (state === undefined) return { result: fail("waiting for the webhook"), webhookCall, isPending: true };
  if (state.kind === "pending") return { result: fail("waiting for the webhook"), isPending: true };
  const { answer, ageMs } = state;
  const result =
    answer.kind === "error"
      ? fail(answer.message, "no response")
      : answer.passed
        ? pass(answer.actual)
        : fail(answer.message ?? "the webhook reported passed: false", answer.actual);
  // The response is about an earlier version of the object.
  if (state.stateVersion !== stateVersion) return { result: fail("waiting for the webhook"), webhookCall, isPending: true };
  if (result.passed) return { result };
  const retryAtMs = now - ageMs + webhookRetryMs;
  const checked = { result, isUnanswered: answer.kind === "error" };
  return now >= retryAtMs ? { ...checked, webhookCall } : { ...checked, retryAtMs };
}

function summary(expect: string, { passed, actual, message, expected, diff }: CheckResult): ExpectationResult {
  return {
    expect: truncate(expect, 256),
    passed,
    ...(actual === undefined ? {} : { actual: truncate(actual) }),
    ...(message === undefined || passed ? {} : { message: truncate(message) }),
    ...(expected === undefined || passed ? {} : { expected: truncate(expected) }),
    ...(diff === undefined || passed ? {} : { diff: truncate(diff, 4096) }),
  };
}

/** Truncates to `length` characters (code points), ending in `...`. */
export function truncate(text: string, length = 1024): string {
  if (text.length <= length) return text;
  const characters = [...text.slice(0, length * 2)];
  return characters.length <= length ? text : `${characters.slice(0, length - 3).join("")}...`;
}

/** Summarizes the failed checks in one line. */
export function failureOf(results: readonly ExpectationResult[]): string {
  const failed = results.filter((result) => !result.passed);
  return truncate(failed.map(({ expect, message }) => `${expect}: ${message ?? "failed"}`).join("; "), 1024);
}
