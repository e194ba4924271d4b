import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { numberAt, valueAt } from "../../functions/read.ts";
import { findExtractor } from "../../functions/registry.ts";
import type { Resource } from "../../functions/function.ts";
import { cut, evaluate, failureOf } from "../../evaluation/evaluate.ts";
import { runLoad } from "./health-checks.ts";
import { failTest, withConditions } from "./load-test-end.ts";
import { defaultWebhookSeconds, type LoadTestDecision, type LoadTestInput } from "./load-test-input.ts";
import { hashOf } from "../spec-hash.ts";
import { nameOf, type Observation, type Target, targetOf } from "../../evaluation/target.ts";
import { iso, isOver, reportChangedSpec } from "../test-status.ts";
import { faultsOfLoadTest } from "../../manifests/validate-spec.ts";

type Status = DeepReadonly<LoadTestStatus>;

const defaultReadySeconds = 300;

/** The spec that a LoadTest runs by. */
export function frozenLoadTest(status: Status | undefined, spec: DeepReadonly<LoadTestSpec>): DeepReadonly<LoadTestSpec> {
  return (status?.frozenSpec as DeepReadonly<LoadTestSpec> | undefined) ?? spec;
}

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
  const decision = reported.phase === "Running" ? runLoad(frozen, reported) : initialize(frozen, reported);
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
