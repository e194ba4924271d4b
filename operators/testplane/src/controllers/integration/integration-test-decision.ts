import { type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { IntegrationTestSpec, IntegrationTestStatus, StepStatus } from "../../api/integration-test.ts";
import type { WebhookCall } from "../../webhooks/webhook-runner.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { advanceFinal } from "./final-expectations.ts";
import { type IntegrationTestInput, type Turn, webhookTimeoutMs } from "./turn.ts";
import { complete, endRound, finish, roundStatus, withRound } from "./rounds.ts";
import { hashOf } from "../spec-hash.ts";
import { beginStep, decideStep } from "./step-decision.ts";
import { type Target, targetOf } from "../../evaluation/target.ts";
import { relatedTargets } from "../../evaluation/workload-pods.ts";
import { type EventDraft, iso, isFinished, reportChangedSpec } from "../test-status.ts";
import { validateIntegrationTest } from "../../manifests/validate-spec.ts";

/** A decision. The status is written before actions are performed; events are recorded after the write. */
export interface IntegrationTestDecision {
  readonly status: DeepReadonly<IntegrationTestStatus>;
  /** Steps whose objects must be applied or deleted now. */
  readonly actions: readonly { readonly index: number; readonly act: "Apply" | "Delete" }[];
  readonly webhookCalls: readonly WebhookCall[];
  readonly events: readonly EventDraft[];
  /** Time of the nearest deadline. */
  readonly wakeAtMs?: number;
}

type Status = DeepReadonly<IntegrationTestStatus>;

/** The spec that a test runs: the spec as it was when the test started. */
export function frozenSpec(
  status: Status | undefined,
  spec: DeepReadonly<IntegrationTestSpec>,
): DeepReadonly<IntegrationTestSpec> {
  return (status?.frozenSpec as DeepReadonly<IntegrationTestSpec> | undefined) ?? spec;
}

/** The targets of an IntegrationTest: those of its steps and of its final expectations. */
export function targetsOf(spec: DeepReadonly<IntegrationTestSpec>, namespace: string): readonly Target[] {
  return [...spec.steps, ...(spec.finalExpectations ?? [])].flatMap(({ resource }) => {
    const target = resource === undefined ? undefined : targetOf(resource, namespace);
    return target === undefined ? [] : [target, ...relatedTargets(target)];
  });
}

/** Advances a test as far as the observations allow. */
export function decideIntegrationTest(input: IntegrationTestInput): IntegrationTestDecision {
  const { generation, status, now } = input;
  if (isFinished(status)) return settled(reportChangedSpec(input, status));
  if (status.phase === undefined) return start(input);
  const spec = frozenSpec(status, input.spec);
  const turn: Turn = { input: { ...input, spec }, events: [], actions: [], webhookCalls: [], wakes: [] };
  const next = advance(turn, reportChangedSpec({ ...input, generation }, status));
  const wakes = turn.wakes.filter((at) => at > now);
  return {
    status: next,
    actions: turn.actions,
    webhookCalls: turn.webhookCalls,
    events: turn.events,
    ...(wakes.length === 0 || isFinished(next) ? {} : { wakeAtMs: Math.min(...wakes) }),
  };
}

const settled = (status: Status): IntegrationTestDecision => ({ status, actions: [], webhookCalls: [], events: [] });

function start({ spec, generation, namespace, now }: IntegrationTestInput): IntegrationTestDecision {
  const started = { startTime: iso(now), observedGeneration: generation, specHash: hashOf(spec) };
  const faults = validateIntegrationTest(spec, namespace);
  if (faults.length > 0) {
    const message = truncate(faults.join("; "), 1024);
    return {
      ...settled({
        ...started,
        phase: "Failed",
        reason: "InvalidConfig",
        message,
        completionTime: iso(now),
        conditions: complete(undefined, "InvalidConfig", message, generation, now),
      }),
      events: [{ type: "Warning", reason: "IntegrationTestFailed", note: message }],
    };
  }
  return {
    ...settled({
      ...started,
      phase: "Running",
      frozenSpec: spec as Record<string, unknown>,
      completedRounds: 0,
      failedRounds: 0,
      ...roundStatus(spec, 1, now),
      conditions: [
        ...setCondition(
          undefined,
          { type: "Progressing", status: true, reason: "Running", observedGeneration: generation },
          now,
        ),
      ],
    }),
    events: [
      { type: "Normal", reason: "IntegrationTestStarted", note: `${spec.steps.length} steps, ${spec.mode ?? "Sequential"}` },
    ],
    wakeAtMs: now + 1,
  };
}

function advance(turn: Turn, before: Status): Status {
  const { spec, now } = turn.input;
  let status = before;
  const maxDuration = spec.repeat?.maxDurationSeconds ?? 0;
  const end = maxDuration > 0 ? Date.parse(status.startTime ?? iso(now)) + maxDuration * 1_000 : undefined;
  if (end !== undefined) turn.wakes.push(end);

  if (status.nextRoundAt !== undefined) {
    if (end !== undefined && now >= end) return finish(turn, status);
    const at = Date.parse(status.nextRoundAt);
    if (now < at) {
      turn.wakes.push(at);
      return status;
    }
    const { nextRoundAt: _, finalExpectations: __, ...rest } = status;
    status = { ...rest, ...roundStatus(spec, (status.currentRound ?? 0) + 1, now) };
  }

  status = advanceSteps(turn, status);
  const steps = status.steps ?? [];
  const isFailed = steps.some(({ state }) => state === "Failed");
  const isSequential = (spec.mode ?? "Sequential") === "Sequential";
  const isRoundFinished = isFailed
    ? isSequential || steps.every(({ state }) => state === "Succeeded" || state === "Failed")
    : steps.every(({ state }) => state === "Succeeded");
  if (isRoundFinished && !isFailed && (spec.finalExpectations?.length ?? 0) > 0) {
    status = advanceFinal(turn, status);
    if (status.finalExpectations?.state === "Running") return stopIfExpired(turn, status, end);
    return endRound(turn, status, status.finalExpectations?.state === "Failed" ? "Failed" : "Succeeded", end);
  }
  if (isRoundFinished) return endRound(turn, status, isFailed ? "Failed" : "Succeeded", end);
  return stopIfExpired(turn, status, end);
}

/** Finishes the test if `maxDurationSeconds` expired during a round. The round counts as neither succeeded nor failed. */
function stopIfExpired(turn: Turn, status: Status, end: number | undefined): Status {
  if (end === undefined || turn.input.now < end) return status;
  turn.actions.length = 0;
  turn.webhookCalls.length = 0;
  return finish(turn, { ...status, roundHistory: withRound(turn, status, "Stopped") });
}

function advanceSteps(turn: Turn, before: Status): Status {
  const { spec, namespace, observe, webhookState, now } = turn.input;
  const isSequential = (spec.mode ?? "Sequential") === "Sequential";
  const steps = [...(before.steps ?? [])];
  let current = before.currentStepIndex ?? 0;
  for (const [index, step] of spec.steps.entries()) {
    let status = steps[index] ?? { name: step.name, index, state: "" as const };
    if (status.state === "Succeeded") continue;
    if (status.state === "Failed") {
      if (isSequential) break;
      continue;
    }
    current = index;
    if ((status.state ?? "") === "") {
      status = beginStep(status, step, now);
      turn.events.push({ type: "Normal", reason: "StepStarted", note: `round ${before.currentRound ?? 1}: ${step.name}` });
    }
    const scope = `${before.currentRound ?? 1}/steps[${index}]`;
    const decision = decideStep({ step, status, namespace, observe, context: { scope, webhookState, now, webhookTimeoutMs } });
    steps[index] = decision.status;
    if (decision.act !== undefined) turn.actions.push({ index, act: decision.act });
    turn.webhookCalls.push(...decision.webhookCalls);
    if (decision.wakeAtMs !== undefined) turn.wakes.push(decision.wakeAtMs);
    recordStepEvent(turn, decision.status);
    if (isSequential && decision.status.state !== "Succeeded") break;
  }
  return { ...before, steps, currentStepIndex: current, progress: `${current + 1}/${spec.steps.length}` };
}

function recordStepEvent(turn: Turn, { name, state, reason, message }: DeepReadonly<StepStatus>): void {
  if (state === "Succeeded") turn.events.push({ type: "Normal", reason: "StepSucceeded", note: name });
  if (state === "Failed") turn.events.push(stepFailed({ name, reason, message }));
}

/** The event of a failed step. */
export const stepFailed = ({
  name,
  reason,
  message,
}: DeepReadonly<Pick<StepStatus, "name" | "reason" | "message">>): EventDraft => ({
  type: "Warning",
  reason: "StepFailed",
  note: `${name}: ${reason ?? ""}: ${message ?? ""}`,
});
