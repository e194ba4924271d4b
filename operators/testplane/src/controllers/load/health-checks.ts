import type { ConditionInput, DeepReadonly } from "@keelson/api-machinery";
import type { HealthCheck, LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { truncate, evaluate, failureOf } from "../../evaluation/evaluate.ts";
import { maxLoadMs } from "../../generator/plan-load.ts";
import { conclude, failTest, withConditions } from "./load-test-end.ts";
import { defaultWebhookSeconds, type LoadTestDecision, type LoadTestInput } from "./load-test-input.ts";
import { targetOf } from "../../evaluation/target.ts";
import { createPodsOf, hasPods } from "../../evaluation/workload-pods.ts";
import { countTargetRestarts } from "./target-restarts.ts";
import { workloadState, workloadTargets } from "./workload-state.ts";
import { type EventDraft, iso, isFinished } from "../test-status.ts";

const defaultIntervalSeconds = 10;
const defaultThreshold = 3;
/** How long the workload may be retried until it is applied. */
const maxApplySeconds = 300;

type Status = DeepReadonly<LoadTestStatus>;

const healthCheckOf = (spec: DeepReadonly<LoadTestSpec>): DeepReadonly<HealthCheck> | undefined =>
  spec.healthCheck ?? spec.expectations;

/** How late the Pods of a load generator may start. */
const maxGeneratorDelayMs = 300_000;

/** How often the output of a running workload is read. */
const progressIntervalMs = 5_000;

/**
 * Advances a LoadTest whose load is running: checks the target every interval until the duration has passed or the workload has
 * completed. Then the output is stored, and the success criteria decide.
 */
export function runLoad(input: LoadTestInput, before: Status): LoadTestDecision {
  const { spec, namespace, observe, now } = input;
  const maxRestarts = spec.successCriteria?.maxTargetRestarts;
  const target = targetOf(spec.target.resource, namespace);
  const status = maxRestarts === undefined ? before : { ...before, ...countTargetRestarts(before, target, observe) };
  if (maxRestarts !== undefined && (status.targetRestarts ?? 0) > maxRestarts) {
    const why = `the target restarted ${status.targetRestarts ?? 0} times, but at most ${maxRestarts} restarts are allowed`;
    return failTest(status, "TargetRestarted", why, now);
  }
  return withProgress(input, decideLoad(input, status));
}

/** Reads the output of a running workload if nothing else is to be done. */
function withProgress({ spec, namespace, name = "", now }: LoadTestInput, decision: LoadTestDecision): LoadTestDecision {
  const { status, act, wakeAtMs = Number.POSITIVE_INFINITY } = decision;
  if (act !== undefined || isFinished(status) || !workloadTargets(spec, { namespace, name }).some(hasPods)) return decision;
  const since = status.progress?.observedAt ?? status.runningSince ?? iso(now);
  const due = Date.parse(since) + progressIntervalMs;
  return now < due ? { ...decision, wakeAtMs: Math.min(wakeAtMs, due) } : { ...decision, act: "read-progress" };
}

/** Stores the output of a load that has ended, then lets the criteria decide. */
function finish(spec: DeepReadonly<LoadTestSpec>, status: Status, now: number): LoadTestDecision {
  return status.outputCollected === true
    ? conclude(spec, status, now)
    : { status, act: "collect-output", webhookCalls: [], events: [] };
}

function decideLoad(
  { spec, namespace, name = "", observe, webhookState, now, wallOffsetMs = 0 }: LoadTestInput,
  status: Status,
): LoadTestDecision {
  const startedAt = Date.parse(status.runningSince ?? iso(now));
  if (status.workloadApplied !== true) {
    const deadline = startedAt + maxApplySeconds * 1_000;
    if (now >= deadline) return failTest(status, "WorkloadApplyFailed", status.message ?? "the workload was not applied", now);
    return { status, act: "apply-workload", webhookCalls: [], events: [], wakeAtMs: Math.min(now + 1_000, deadline) };
  }
  const workload = workloadState(spec, { namespace, name }, observe);
  if (workload.kind === "failed") return failTest(status, "WorkloadFailed", workload.message, now);
  const hasCompleted = workload.kind === "completed";
  const { generator } = spec.workload;
  const isGenerating = workload.kind === "running" && workload.isGenerating;
  const limit =
    generator === undefined || !isGenerating
      ? Number.POSITIVE_INFINITY
      : startedAt + maxLoadMs(generator) + maxGeneratorDelayMs;
  if (now >= limit) {
    return failTest(status, "LoadTimeout", "the load generator has not finished; its Pods may not have started", now);
  }
  // A worker that started late, or waits for its last responses, is not stopped: without its result the load cannot be judged.
  const end = spec.durationSeconds && !isGenerating ? startedAt + spec.durationSeconds * 1_000 : undefined;
  const health = healthCheckOf(spec);
  if (health === undefined) {
    if (hasCompleted || (end !== undefined && now >= end)) return finish(spec, status, now);
    const wakeAtMs = Math.min(end ?? Number.POSITIVE_INFINITY, limit);
    return { status, webhookCalls: [], events: [], ...(Number.isFinite(wakeAtMs) ? { wakeAtMs } : {}) };
  }
  const intervalMs = (health.intervalSeconds || defaultIntervalSeconds) * 1_000;
  const before = status.healthCheckStatus;
  // The last check has been made, and the output has been stored after it.
  if (status.outputCollected === true) return conclude(spec, status, now);
  const count = before?.checkCount ?? 0;
  // Counted from the start of the load, so that a late check does not delay the following ones.
  const last = before?.lastCheckTime === undefined ? undefined : Date.parse(before.lastCheckTime);
  const due = last === undefined ? startedAt : startedAt + (Math.floor((last - startedAt) / intervalMs) + 1) * intervalMs;
  const isEnd = hasCompleted || (end !== undefined && now >= end);
  if (now < due && !isEnd) return { status, webhookCalls: [], events: [], wakeAtMs: Math.min(due, end ?? due) };

  const target = targetOf(spec.target.resource, namespace);
  const observation = observe(target);
  const context = {
    scope: `healthCheck#${count}`,
    webhookState,
    now,
    wallOffsetMs,
    podsOf: createPodsOf(observe, target),
    webhookTimeoutMs: (health.timeoutSeconds || defaultWebhookSeconds) * 1_000,
  };
  const evaluation = evaluate(health, observation.kind === "known" ? observation.objects : [], context);
  if (observation.kind === "loading" || evaluation.isPending) {
    // Right after a restart the watches are still loading. That is not a failure of the target.
    return { status, webhookCalls: evaluation.webhookCalls, events: [], wakeAtMs: now + intervalMs };
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
  const condition: ConditionInput = evaluation.passed
    ? { type: "ExpectationsMet", status: true, reason: "ExpectationsMet" }
    : { type: "ExpectationsMet", status: false, reason: "ExpectationsFailed", message: truncate(why) };
  const reported = withConditions(checked, now, condition);
  // Events only when the result changes: one per check would be thousands a day.
  const didPass = before === undefined || before.consecutiveFailures === 0;
  const events: EventDraft[] = [];
  if (!evaluation.passed && didPass) events.push({ type: "Warning", reason: "ExpectationFailed", note: why });
  if (evaluation.passed && !didPass) events.push({ type: "Normal", reason: "ExpectationPassed", note: `check ${count + 1}` });
  const threshold = health.failureThreshold || defaultThreshold;
  if (consecutiveFailures >= threshold) {
    const decision = failTest(reported, "HealthCheckFailed", `${threshold} consecutive checks failed: ${why}`, now);
    return { ...decision, events: [...events, ...decision.events] };
  }
  if (isEnd) {
    const decision = finish(spec, reported, now);
    return { ...decision, events: [...events, ...decision.events] };
  }
  const next = startedAt + (Math.floor((now - startedAt) / intervalMs) + 1) * intervalMs;
  return { status: reported, webhookCalls: [], events, wakeAtMs: Math.min(next, end ?? next) };
}
