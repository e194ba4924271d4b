import type { ConditionInput, DeepReadonly } from "@keelson/api-machinery";
import type { HealthCheck, LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import { cut, evaluate, failureOf } from "../../evaluation/evaluate.ts";
import { failTest, succeed, withConditions } from "./load-test-end.ts";
import { defaultWebhookSeconds, type LoadTestDecision, type LoadTestInput } from "./load-test-input.ts";
import { targetOf } from "../../evaluation/target.ts";
import { type EventClaim, iso } from "../test-status.ts";

const defaultIntervalSeconds = 10;
const defaultThreshold = 3;

type Status = DeepReadonly<LoadTestStatus>;

const healthCheckOf = (spec: DeepReadonly<LoadTestSpec>): DeepReadonly<HealthCheck> | undefined =>
  spec.healthCheck ?? spec.expectations;

/** Decides on a LoadTest whose load runs: checks the target's health every interval, until the load's time is up. */
export function runLoad({ spec, namespace, observe, known, now }: LoadTestInput, status: Status): LoadTestDecision {
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
