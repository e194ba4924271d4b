import type { DeepReadonly } from "@keelson/api-machinery";
import type { Expectation, ExpectationResult, StepCondition } from "../api/expectation.ts";
import { type CheckResult, fail, pass, type Resource } from "../functions/function.ts";
import { findCheck } from "../functions/registry.ts";
import { stringAt } from "../functions/read.ts";
import type { WebhookAsk, WebhookKnowledge } from "../webhooks/webhook-runner.ts";

/** How long after an answer that did not pass a webhook is asked again: what it looks at cannot be watched. */
const askAgainMs = 5_000;

/** What checks are made with. */
export interface EvaluationContext {
  /** Names this condition within the test and round: `1/steps[0].expectations`. */
  readonly scope: string;
  readonly known: (key: string) => WebhookKnowledge | undefined;
  readonly now: number;
  /** How long a webhook may take. */
  readonly webhookTimeoutMs: number;
}

/** Outcome of a condition. */
export interface Evaluation {
  readonly passed: boolean;
  readonly results: readonly ExpectationResult[];
  /** It cannot come to hold any more. */
  readonly isFinal: boolean;
  /** Webhooks to ask now. */
  readonly asks: readonly WebhookAsk[];
  /** A webhook has not answered yet, so nothing is certain. */
  readonly isPending: boolean;
  /** When a webhook is to be asked again. */
  readonly againAtMs?: number;
}

/**
 * Checks a condition on the objects that it is about: it holds when one of them fulfils all of `allOf` and one of `anyOf`. With no
 * object the checks see its absence.
 */
export function evaluate(
  condition: DeepReadonly<StepCondition> | undefined,
  objects: readonly NonNullable<Resource>[],
  context: EvaluationContext,
): Evaluation {
  const candidates: readonly Resource[] = objects.length === 0 ? [undefined] : objects;
  const evaluations: Evaluation[] = [];
  for (const candidate of candidates) {
    const evaluation = evaluateOne(condition, candidate, context);
    if (evaluation.passed) return evaluation;
    evaluations.push(evaluation);
  }
  const [first] = evaluations;
  const times = evaluations.flatMap(({ againAtMs }) => (againAtMs === undefined ? [] : [againAtMs]));
  return {
    passed: false,
    results: first?.results ?? [],
    // Others may come to match.
    isFinal: evaluations.length === 1 && (first?.isFinal ?? false),
    asks: evaluations.flatMap(({ asks }) => asks),
    isPending: evaluations.some(({ isPending }) => isPending),
    ...(times.length === 0 ? {} : { againAtMs: Math.min(...times) }),
  };
}

interface Checked {
  readonly result: CheckResult;
  readonly ask?: WebhookAsk;
  readonly isPending?: boolean;
  readonly againAtMs?: number;
}

function evaluateOne(
  condition: DeepReadonly<StepCondition> | undefined,
  resource: Resource,
  context: EvaluationContext,
): Evaluation {
  const all = (condition?.allOf ?? []).map((each, index) => checkOne(each, resource, `allOf[${index}]`, context));
  const any = (condition?.anyOf ?? []).map((each, index) => checkOne(each, resource, `anyOf[${index}]`, context));
  const checked = [...all, ...any];
  const times = checked.flatMap(({ againAtMs }) => (againAtMs === undefined ? [] : [againAtMs]));
  const names = [...(condition?.allOf ?? []), ...(condition?.anyOf ?? [])];
  return {
    passed: all.every(({ result }) => result.passed) && (any.length === 0 || any.some(({ result }) => result.passed)),
    results: checked.map(({ result }, index) => summary(names[index]?.function ?? "", result)),
    isFinal: all.some(({ result }) => result.isFinal) || (any.length > 0 && any.every(({ result }) => result.isFinal === true)),
    asks: checked.flatMap(({ ask }) => (ask === undefined ? [] : [ask])),
    isPending: checked.some(({ isPending }) => isPending),
    ...(times.length === 0 ? {} : { againAtMs: Math.min(...times) }),
  };
}

function checkOne(
  expectation: DeepReadonly<Expectation>,
  resource: Resource,
  place: string,
  context: EvaluationContext,
): Checked {
  if (expectation.webhook === undefined || expectation.webhook === "") {
    const found = findCheck(expectation.function);
    // Specs are validated before they run; a newer or older operator may know other functions.
    if (found === undefined) return { result: { ...fail(`unknown function ${expectation.function}`), isFinal: true } };
    return { result: found.check(resource, expectation.params ?? {}) };
  }
  return askWebhook(expectation, expectation.webhook, resource, place, context);
}

function askWebhook(
  expectation: DeepReadonly<Expectation>,
  url: string,
  resource: Resource,
  place: string,
  { scope, known, now, webhookTimeoutMs }: EvaluationContext,
): Checked {
  const key = `${scope}.${place}/${stringAt(resource, "metadata", "name")}`;
  const stateVersion = stringAt(resource, "metadata", "resourceVersion");
  const knowledge = known(key);
  const ask: WebhookAsk = {
    key,
    stateVersion,
    url,
    function: expectation.function,
    params: expectation.params,
    state: resource ?? null,
    timeoutMs: webhookTimeoutMs,
  };
  if (knowledge === undefined) return { result: fail("the webhook is being asked"), ask, isPending: true };
  if (knowledge.kind === "asking") return { result: fail("the webhook is being asked"), isPending: true };
  const { answer, atMs } = knowledge;
  const result =
    answer.kind === "error"
      ? fail(answer.message, "no answer")
      : answer.passed
        ? pass(answer.actual)
        : fail(answer.message ?? "the webhook says no", answer.actual);
  // An answer about another state is none about this one.
  if (knowledge.stateVersion !== stateVersion)
    return { result: fail("the webhook is being asked again"), ask, isPending: true };
  if (result.passed) return { result };
  const againAtMs = atMs + askAgainMs;
  return now >= againAtMs ? { result, ask } : { result, againAtMs };
}

function summary(expect: string, { passed, actual, message }: CheckResult): ExpectationResult {
  return {
    expect,
    passed,
    ...(actual === undefined ? {} : { actual: cut(actual) }),
    ...(message === undefined || passed ? {} : { message: cut(message) }),
  };
}

/** The first `length` characters, never half of one. */
export function cut(text: string, length = 256): string {
  if (text.length <= length) return text;
  const characters = [...text.slice(0, length * 2)];
  return characters.length <= length ? text : `${characters.slice(0, length - 3).join("")}...`;
}

/** One line about the checks that do not hold. */
export function failureOf(results: readonly ExpectationResult[]): string {
  const failed = results.filter((result) => !result.passed);
  return cut(failed.map(({ expect, message }) => `${expect}: ${message ?? "does not hold"}`).join("; "), 1024);
}
