import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { numberAt, valueAt } from "../../functions/read.ts";
import { findExtractor } from "../../functions/registry.ts";
import type { Resource } from "../../functions/function.ts";
import type { ExpectationResult } from "../../api/expectation.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { decideCondition } from "../condition-decision.ts";
import { runLoad } from "./health-checks.ts";
import { failTest, withConditions } from "./load-test-end.ts";
import { defaultWebhookSeconds, type LoadTestDecision, type LoadTestInput } from "./load-test-input.ts";
import { hashOf } from "../spec-hash.ts";
import { unknownKindDeadline, unknownKindMessage } from "../../evaluation/unknown-kind.ts";
import { createPodsOf } from "../../evaluation/workload-pods.ts";
import { describeTarget, type Observation, type Target, targetOf } from "../../evaluation/target.ts";
import { iso, isFinished, reportChangedSpec } from "../test-status.ts";
import { validateLoadTest } from "../../manifests/validate-load-test.ts";

type Status = DeepReadonly<LoadTestStatus>;

const defaultReadySeconds = 300;

/** The spec that a LoadTest runs: the spec as it was when the test started. */
export function frozenLoadTest(status: Status | undefined, spec: DeepReadonly<LoadTestSpec>): DeepReadonly<LoadTestSpec> {
  return (status?.frozenSpec as DeepReadonly<LoadTestSpec> | undefined) ?? spec;
}

/**
 * Advances a LoadTest:
 *
 * ```text
 *   Pending --> Initializing: apply target, wait for it --> Running: apply workload, check every interval --> Succeeded (duration)
 *                    \_____________ refusal, time, values missing, failureThreshold in a row ____________/ -> Failed
 * ```
 */
export function decideLoadTest(input: LoadTestInput): LoadTestDecision {
  const { status, now } = input;
  if (isFinished(status)) return settle(input, status);
  if (status.phase === undefined) return start(input);
  const spec = frozenLoadTest(status, input.spec);
  const frozen = { ...input, spec };
  const reported = reportChangedSpec(input, status);
  const decision = reported.phase === "Running" ? runLoad(frozen, reported) : initialize(frozen, reported);
  return decision.wakeAtMs === undefined || decision.wakeAtMs > now ? decision : { ...decision, wakeAtMs: now + 1 };
}

/** Deletes the workload of a finished test. */
function settle(input: LoadTestInput, before: Status): LoadTestDecision {
  const status = reportChangedSpec(input, before);
  const hasWorkload = before.workloadApplied === true && before.workloadCleaned !== true && before.frozenSpec !== undefined;
  return {
    status,
    webhookCalls: [],
    events: [],
    ...(hasWorkload ? { act: before.outputCollected === true ? "delete-workload" : "collect-output" } : {}),
  };
}

function start({ spec, generation, namespace, now }: LoadTestInput): LoadTestDecision {
  const started = { startTime: iso(now), observedGeneration: generation, specHash: hashOf(spec) };
  const faults = validateLoadTest(spec, namespace);
  if (faults.length > 0) return failTest({ ...started, phase: "Pending" }, "InvalidConfig", faults.join("; "), now);
  const seconds = spec.target.readyCondition?.timeoutSeconds || defaultReadySeconds;
  const status: Status = {
    ...started,
    phase: "Initializing",
    frozenSpec: spec as Record<string, unknown>,
    // The timeout starts here, even if the target cannot be read.
    readyConditionStatus: { state: "Pending", startedAt: iso(now), deadline: iso(now + seconds * 1_000) },
  };
  return {
    status: withConditions(status, now, { type: "Ready", status: false, reason: "Initializing" }),
    webhookCalls: [],
    events: [{ type: "Normal", reason: "LoadTestStarted", note: describeTarget(targetOf(spec.target.resource, namespace)) }],
  };
}

function initialize(input: LoadTestInput, status: Status): LoadTestDecision {
  const { spec, namespace, observe, now } = input;
  const deadline = Date.parse(status.readyConditionStatus?.deadline ?? iso(now));
  const isLate = now >= deadline;
  const wait = (message: string): LoadTestDecision =>
    isLate ? timedOut(status, message, now) : { ...waitForTarget(status, message, now), wakeAtMs: deadline };
  const target = targetOf(spec.target.resource, namespace);
  const observation = observe(target);
  if (observation.kind === "unknown-kind") {
    const until = Math.min(unknownKindDeadline(target, Date.parse(status.startTime ?? iso(now))), deadline);
    const message = unknownKindMessage(target);
    return now >= until ? failTest(status, "UnknownKind", message, now) : { ...wait(message), wakeAtMs: until };
  }
  if (spec.target.resource.manifest !== undefined && status.targetApplied !== true) {
    if (isLate) return timedOut(status, status.message ?? "the target has not been applied", now);
    return { status, act: "apply-target", webhookCalls: [], events: [], wakeAtMs: deadline };
  }
  if (observation.kind === "loading" && observation.isForbidden) {
    return failTest(status, "Forbidden", `cannot read ${describeTarget(target)}: ${observation.error ?? "forbidden"}`, now);
  }
  if (observation.kind === "loading") {
    return wait(`cannot read ${describeTarget(target)} yet${observation.error === undefined ? "" : `: ${observation.error}`}`);
  }
  if (isLost(status, observation)) {
    return failTest(status, "TargetLost", `${describeTarget(target)} was deleted while the test was waiting`, now);
  }
  const obstacle = targetObstacle(target, status, observation);
  if (obstacle !== undefined) return wait(obstacle);
  return decideReady({ ...input, status }, target, observation.objects, deadline);
}

/** Checks the ready condition of the target. Once it holds, the load starts. */
function decideReady(
  { spec, observe, webhookState, now, wallOffsetMs = 0, status }: LoadTestInput,
  target: Target,
  objects: Extract<Observation, { kind: "known" }>["objects"],
  deadline: number,
): LoadTestDecision {
  const { holdsSince, ...ready } = status.readyConditionStatus ?? {};
  const { results, outcome } = decideCondition({
    condition: spec.target.readyCondition,
    progress: { stageStartedAt: ready.startedAt, holdsSince },
    before: ready.results,
    objects,
    context: {
      ...{ scope: "target.readyCondition", webhookState, now, wallOffsetMs, webhookTimeoutMs: defaultWebhookSeconds * 1_000 },
      podsOf: createPodsOf(observe, target),
    },
    deadline,
    loss: undefined,
    lateText: "not ready in time",
  });
  if (outcome.kind === "passed") return startLoad(spec, status, { target, objects, results, now });
  const held = outcome.kind === "waiting" && outcome.holdsSince !== undefined ? { holdsSince: outcome.holdsSince } : {};
  const checked: Status = { ...status, readyConditionStatus: { ...ready, ...held, state: "Running", results: [...results] } };
  if (outcome.kind === "failed") {
    return outcome.reason === "Timeout"
      ? timedOut(checked, outcome.message, now)
      : failTest(checked, "TargetFailed", outcome.message, now);
  }
  return { ...waitForTarget(checked, outcome.message, now), webhookCalls: outcome.webhookCalls, wakeAtMs: outcome.wakeAtMs };
}

interface ReadyTarget {
  readonly target: Target;
  readonly objects: Extract<Observation, { kind: "known" }>["objects"];
  readonly results: DeepReadonly<ExpectationResult[]>;
  readonly now: number;
}

function startLoad(
  spec: DeepReadonly<LoadTestSpec>,
  status: Status,
  { target, objects, results, now }: ReadyTarget,
): LoadTestDecision {
  const { holdsSince: _, ...ready } = status.readyConditionStatus ?? {};
  const values = extractValues(spec, objects[0]);
  const checked: Status = { ...status, readyConditionStatus: { ...ready, state: "Running", results: [...results] } };
  if (typeof values === "string") return failTest(checked, "EnvInjectionFailed", values, now);
  const { message: __, ...rest } = checked;
  const running: Status = {
    ...rest,
    phase: "Running",
    runningSince: iso(now),
    injectedValues: values,
    readyConditionStatus: { ...ready, state: "Passed", finishedAt: iso(now), results: [...results] },
  };
  return {
    status: withConditions(running, now, { type: "TargetReady", status: true, reason: "TargetReady" }),
    webhookCalls: [],
    events: [{ type: "Normal", reason: "TargetReady", note: describeTarget(target) }],
    act: "apply-workload",
    wakeAtMs: now + 1_000,
  };
}

function timedOut(status: Status, why: string, now: number): LoadTestDecision {
  const readyConditionStatus = { ...status.readyConditionStatus, state: "Failed" as const, finishedAt: iso(now) };
  const condition = { type: "TargetReady", status: false, reason: "ReadyConditionTimeout", message: truncate(why) };
  return failTest({ ...status, readyConditionStatus }, "ReadyConditionTimeout", why, now, condition);
}

function waitForTarget(status: Status, message: string, now: number): LoadTestDecision {
  const condition = { type: "TargetReady", status: false, reason: "WaitingForReadyCondition", message: truncate(message) };
  const waiting = withConditions({ ...status, message: truncate(message, 1024) }, now, condition);
  return { status: waiting, webhookCalls: [], events: [] };
}

/** Whether the applied target has been deleted. */
function isLost(status: Status, { objects, hasSeen }: Extract<Observation, { kind: "known" }>): boolean {
  return status.targetVersion !== undefined && hasSeen(status.targetVersion) && objects.length === 0;
}

function targetObstacle(
  target: Target,
  status: Status,
  { objects, hasSeen }: Extract<Observation, { kind: "known" }>,
): string | undefined {
  if (status.targetVersion !== undefined && !hasSeen(status.targetVersion))
    return `waiting for the applied version of ${describeTarget(target)}`;
  const [object] = objects;
  if (object === undefined) return `${describeTarget(target)} not found`;
  const generation = numberAt(object, ["metadata", "generation"], 0);
  const observed = valueAt(object, "status", "observedGeneration");
  if (typeof observed === "number" && observed < generation) {
    return `${describeTarget(target)}: its controller has observed generation ${observed} of ${generation}`;
  }
  return undefined;
}

/** The values to inject, or an error message: a load against an empty address tests nothing. */
function extractValues(spec: DeepReadonly<LoadTestSpec>, target: Resource): Record<string, string> | string {
  const values: [string, string][] = [];
  for (const { name, extract } of spec.workload.envInjection ?? []) {
    const value = findExtractor(extract.function)?.extract(target, extract.params ?? {});
    if (value === undefined)
      return `${name}: ${extract.function} ${JSON.stringify(extract.params ?? {})} found no value in the target`;
    values.push([name, value]);
  }
  return Object.fromEntries(values);
}
