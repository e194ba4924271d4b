import { type ConditionInput, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { HealthCheck, LoadTestSpec, LoadTestStatus } from "../api/load-test.ts";
import type { Resource } from "../functions/function.ts";
import { findExtractor } from "../functions/registry.ts";
import { numberAt, valueAt } from "../functions/read.ts";
import type { WebhookAsk, WebhookKnowledge } from "../webhooks/webhook-runner.ts";
import { cut, evaluate, failureOf } from "./evaluate.ts";
import { type EventClaim, isOver } from "./integration-test-decision.ts";
import { hashOf } from "./spec-hash.ts";
import { nameOf, type Observation, type Target, targetOf } from "./target.ts";
import { faultsOfLoadTest } from "./validate-spec.ts";

const defaultReadySeconds = 300;
const defaultIntervalSeconds = 10;
const defaultWebhookSeconds = 10;
const defaultThreshold = 3;

/** What a LoadTest is decided with. */
export interface LoadTestInput {
  readonly spec: DeepReadonly<LoadTestSpec>;
  readonly generation: number;
  readonly namespace: string;
  readonly status: DeepReadonly<LoadTestStatus>;
  readonly observe: (target: Target) => Observation;
  readonly known: (key: string) => WebhookKnowledge | undefined;
  readonly now: number;
}

/** What is to be done to the objects of a LoadTest. */
export type LoadTestAct = "apply-target" | "apply-workload" | "delete-workload";

/** What follows. The status is written before anything is done, and events are told after it. */
export interface LoadTestDecision {
  readonly status: DeepReadonly<LoadTestStatus>;
  readonly act?: LoadTestAct;
  readonly asks: readonly WebhookAsk[];
  readonly events: readonly EventClaim[];
  readonly wakeAtMs?: number;
}

type Status = DeepReadonly<LoadTestStatus>;

const iso = (ms: number): string => new Date(ms).toISOString();

/** The spec that a LoadTest runs by. */
export function frozenLoadTest(status: Status | undefined, spec: DeepReadonly<LoadTestSpec>): DeepReadonly<LoadTestSpec> {
  return (status?.frozenSpec as DeepReadonly<LoadTestSpec> | undefined) ?? spec;
}

const healthCheckOf = (spec: DeepReadonly<LoadTestSpec>): DeepReadonly<HealthCheck> | undefined =>
  spec.healthCheck ?? spec.expectations;

/**
 * Decides on a LoadTest:
 *
 * ```text
 *   Pending --> Initializing: apply target, wait for it --> Running: apply workload, check every interval --> Succeeded (duration)
 *                    \_____________ refusal, time, values missing, failureThreshold in a row ____________/ -> Failed
 * ```
 */
export function decideLoadTest(input: LoadTestInput): LoadTestDecision {
  const { status, now } = input;
  if (isOver(status)) return settle(input, status);
  if (status.phase === undefined) return start(input);
  const spec = frozenLoadTest(status, input.spec);
  const frozen = { ...input, spec };
  const reported = reportChangedSpec(input, status);
  const decision = reported.phase === "Running" ? run(frozen, reported) : initialize(frozen, reported);
  return decision.wakeAtMs === undefined || decision.wakeAtMs > now ? decision : { ...decision, wakeAtMs: now + 1 };
}

/** After the end: the load stops, unless it is to stay. */
function settle(input: LoadTestInput, before: Status): LoadTestDecision {
  const status = reportChangedSpec(input, before);
  const isLeft = before.workloadApplied === true && before.workloadCleaned !== true && before.frozenSpec !== undefined;
  return { status, asks: [], events: [], ...(isLeft ? { act: "delete-workload" as const } : {}) };
}

function start({ spec, generation, namespace, now }: LoadTestInput): LoadTestDecision {
  const begun = { startTime: iso(now), observedGeneration: generation, specHash: hashOf(spec) };
  const faults = faultsOfLoadTest(spec, namespace);
  if (faults.length > 0) return failTest({ ...begun, phase: "Pending" }, "InvalidConfig", faults.join("; "), now);
  const seconds = spec.target.readyCondition?.timeoutSeconds || defaultReadySeconds;
  const status: Status = {
    ...begun,
    phase: "Initializing",
    frozenSpec: spec as Record<string, unknown>,
    // The time counts from here, whatever keeps the target from being known.
    readyConditionStatus: { state: "Pending", startedAt: iso(now), deadline: iso(now + seconds * 1_000) },
  };
  return {
    status: withConditions(status, now, { type: "Ready", status: false, reason: "Initializing" }),
    asks: [],
    events: [{ type: "Normal", reason: "LoadTestStarted", note: nameOf(targetOf(spec.target.resource, namespace)) }],
  };
}

function initialize({ spec, namespace, observe, known, now }: LoadTestInput, status: Status): LoadTestDecision {
  const ready = status.readyConditionStatus ?? {};
  const deadline = Date.parse(ready.deadline ?? iso(now));
  const isLate = now >= deadline;
  const timedOut = (why: string): LoadTestDecision =>
    failTest(
      { ...status, readyConditionStatus: { ...ready, state: "Failed", finishedAt: iso(now) } },
      "ReadyConditionTimeout",
      why,
      now,
      { type: "TargetReady", status: false, reason: "ReadyConditionTimeout", message: cut(why) },
    );
  const wait = (message: string): LoadTestDecision =>
    isLate
      ? timedOut(message)
      : {
          status: withConditions({ ...status, message: cut(message, 1024) }, now, {
            type: "TargetReady",
            status: false,
            reason: "WaitingForReadyCondition",
            message: cut(message),
          }),
          asks: [],
          events: [],
          wakeAtMs: deadline,
        };

  if (spec.target.resource.manifest !== undefined && status.targetApplied !== true) {
    if (isLate) return timedOut(status.message ?? "the target was not applied");
    return { status, act: "apply-target", asks: [], events: [], wakeAtMs: deadline };
  }
  const target = targetOf(spec.target.resource, namespace);
  const observation = observe(target);
  if (observation.kind === "unknown-kind") return wait(`no kind ${target.kind} of ${target.apiVersion} is served`);
  if (observation.kind === "loading") {
    return wait(`${nameOf(target)} is not known yet${observation.error === undefined ? "" : `: ${observation.error}`}`);
  }
  const obstacle = targetObstacle(target, status, observation);
  if (obstacle !== undefined) return wait(obstacle);
  const context = { scope: "target.readyCondition", known, now, webhookTimeoutMs: defaultWebhookSeconds * 1_000 };
  const evaluation = evaluate(spec.target.readyCondition, observation.objects, context);
  const checked: Status = { ...status, readyConditionStatus: { ...ready, state: "Running", results: [...evaluation.results] } };
  if (!evaluation.passed) {
    const why = failureOf(evaluation.results);
    if (evaluation.isFinal) return { ...failTest(checked, "TargetFailed", why, now) };
    if (isLate) return timedOut(why);
    return {
      status: withConditions({ ...checked, message: why }, now, {
        type: "TargetReady",
        status: false,
        reason: "WaitingForReadyCondition",
        message: cut(why),
      }),
      asks: evaluation.asks,
      events: [],
      wakeAtMs: Math.min(deadline, evaluation.againAtMs ?? deadline),
    };
  }
  const values = extractValues(spec, observation.objects[0]);
  if (typeof values === "string") return failTest(checked, "EnvInjectionFailed", values, now);
  const { message: _, ...rest } = checked;
  const running: Status = {
    ...rest,
    phase: "Running",
    runningSince: iso(now),
    injectedValues: values,
    readyConditionStatus: { ...ready, state: "Passed", finishedAt: iso(now), results: [...evaluation.results] },
  };
  return {
    status: withConditions(running, now, { type: "TargetReady", status: true, reason: "TargetReady" }),
    asks: [],
    events: [{ type: "Normal", reason: "TargetReady", note: nameOf(target) }],
    act: "apply-workload",
    wakeAtMs: now + 1_000,
  };
}

function targetObstacle(
  target: Target,
  status: Status,
  { objects, hasSeen }: Extract<Observation, { kind: "known" }>,
): string | undefined {
  if (status.targetVersion !== undefined && !hasSeen(status.targetVersion))
    return `waits to see what was applied to ${nameOf(target)}`;
  const [object] = objects;
  if (object === undefined) return `there is no ${nameOf(target)}`;
  const generation = numberAt(object, ["metadata", "generation"], 0);
  const observed = valueAt(object, "status", "observedGeneration");
  if (typeof observed === "number" && observed < generation) {
    return `${nameOf(target)}: its controller has seen generation ${observed} of ${generation}`;
  }
  return undefined;
}

/** The values to inject, or what is missing: a load against an empty address tests nothing. */
function extractValues(spec: DeepReadonly<LoadTestSpec>, target: Resource): Record<string, string> | string {
  const values: [string, string][] = [];
  for (const { name, extract } of spec.workload.envInjection ?? []) {
    const value = findExtractor(extract.function)?.extract(target, extract.params ?? {});
    if (value === undefined)
      return `${name}: ${extract.function} ${JSON.stringify(extract.params ?? {})} found nothing in the target`;
    values.push([name, value]);
  }
  return Object.fromEntries(values);
}

function run({ spec, namespace, observe, known, now }: LoadTestInput, status: Status): LoadTestDecision {
  const startedAt = Date.parse(status.runningSince ?? iso(now));
  if (status.workloadApplied !== true) {
    return { status, act: "apply-workload", asks: [], events: [], wakeAtMs: now + 1_000 };
  }
  const end = spec.durationSeconds ? startedAt + spec.durationSeconds * 1_000 : undefined;
  const health = healthCheckOf(spec);
  if (health === undefined) {
    if (end !== undefined && now >= end) return succeed(status, now);
    return { status, asks: [], events: [], ...(end === undefined ? {} : { wakeAtMs: end }) };
  }
  const intervalMs = (health.intervalSeconds || defaultIntervalSeconds) * 1_000;
  const before = status.healthCheckStatus;
  const count = before?.checkCount ?? 0;
  // From the start of the load, not from the last check: a late check does not move those after it.
  const last = before?.lastCheckTime === undefined ? undefined : Date.parse(before.lastCheckTime);
  const due =
    last === undefined ? startedAt + intervalMs : startedAt + (Math.floor((last - startedAt) / intervalMs) + 1) * intervalMs;
  const isEnd = end !== undefined && now >= end;
  if (now < due && !isEnd) return { status, asks: [], events: [], wakeAtMs: Math.min(due, end ?? due) };

  const target = targetOf(spec.target.resource, namespace);
  const observation = observe(target);
  const context = {
    scope: `healthCheck#${count}`,
    known,
    now,
    webhookTimeoutMs: (health.timeoutSeconds || defaultWebhookSeconds) * 1_000,
  };
  const evaluation = evaluate(health, observation.kind === "known" ? observation.objects : [], context);
  if (observation.kind === "loading" || evaluation.isPending) {
    // After a restart nothing is known for a moment: that says nothing about the target.
    return { status, asks: evaluation.asks, events: [], wakeAtMs: now + intervalMs };
  }
  const consecutiveFailures = evaluation.passed ? 0 : (before?.consecutiveFailures ?? 0) + 1;
  const why = failureOf(evaluation.results);
  const checked: Status = {
    ...status,
    healthCheckStatus: {
      lastCheckTime: iso(now),
      checkCount: count + 1,
      passCount: (before?.passCount ?? 0) + (evaluation.passed ? 1 : 0),
      failCount: (before?.failCount ?? 0) + (evaluation.passed ? 0 : 1),
      consecutiveFailures,
      lastResults: [...evaluation.results],
    },
  };
  const claim: ConditionInput = evaluation.passed
    ? { type: "ExpectationsMet", status: true, reason: "ExpectationsMet" }
    : { type: "ExpectationsMet", status: false, reason: "ExpectationsFailed", message: cut(why) };
  const told = withConditions(checked, now, claim);
  // Only when it turns: an event a check would be thousands a day.
  const didPass = before === undefined || before.consecutiveFailures === 0;
  const events: EventClaim[] = [];
  if (!evaluation.passed && didPass) events.push({ type: "Warning", reason: "ExpectationFailed", note: why });
  if (evaluation.passed && !didPass) events.push({ type: "Normal", reason: "ExpectationPassed", note: `check ${count + 1}` });
  const threshold = health.failureThreshold || defaultThreshold;
  if (consecutiveFailures >= threshold) {
    const decision = failTest(told, "HealthCheckFailed", `${threshold} checks in a row failed: ${why}`, now);
    return { ...decision, events: [...events, ...decision.events] };
  }
  if (isEnd) {
    const decision = succeed(told, now);
    return { ...decision, events: [...events, ...decision.events] };
  }
  const next = startedAt + (Math.floor((now - startedAt) / intervalMs) + 1) * intervalMs;
  return { status: told, asks: [], events, wakeAtMs: Math.min(next, end ?? next) };
}

function succeed(status: Status, now: number): LoadTestDecision {
  const health = status.healthCheckStatus;
  const message =
    health === undefined ? "the load ran to its end" : `${health.passCount ?? 0} of ${health.checkCount ?? 0} checks held`;
  return {
    status: withConditions({ ...status, phase: "Succeeded", message, completionTime: iso(now) }, now, {
      type: "Ready",
      status: false,
      reason: "Succeeded",
      message,
    }),
    asks: [],
    events: [{ type: "Normal", reason: "LoadTestSucceeded", note: message }],
  };
}

/** A LoadTest that has failed. */
export function failTest(
  status: Status,
  reason: string,
  why: string,
  now: number,
  ...claims: readonly ConditionInput[]
): LoadTestDecision {
  const message = cut(why, 1024);
  // The spec is needed to stop the load, and for nothing else.
  const { frozenSpec, ...rest } = status;
  const left = frozenSpec !== undefined && status.workloadApplied === true ? { frozenSpec } : {};
  return {
    status: withConditions(
      { ...rest, ...left, phase: "Failed", reason, message, completionTime: iso(now) },
      now,
      { type: "Ready", status: false, reason, message: cut(why) },
      ...claims,
    ),
    asks: [],
    events: [{ type: "Warning", reason: "LoadTestFailed", note: `${reason}: ${message}` }],
  };
}

/** The status with these conditions, of the generation that runs. */
export function withConditions(status: Status, now: number, ...claims: readonly ConditionInput[]): Status {
  let conditions = status.conditions;
  for (const claim of claims)
    conditions = setCondition(conditions, { observedGeneration: status.observedGeneration, ...claim }, now);
  return conditions === status.conditions || conditions === undefined ? status : { ...status, conditions };
}

function reportChangedSpec({ spec, generation, now }: LoadTestInput, status: Status): Status {
  const isChanged = status.specHash !== undefined && hashOf(spec) !== status.specHash;
  if (!isChanged && !status.conditions?.some(({ type }) => type === "SpecChangedIgnored")) return status;
  return withConditions(
    status,
    now,
    isChanged
      ? {
          type: "SpecChangedIgnored",
          status: true,
          reason: "SpecChanged",
          message: "the spec was changed after the test had started; delete the test and apply it again to run the new one",
          observedGeneration: generation,
        }
      : { type: "SpecChangedIgnored", status: false, reason: "SpecAsStarted", observedGeneration: generation },
  );
}
