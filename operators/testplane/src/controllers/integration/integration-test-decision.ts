import { type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { IntegrationTestSpec, IntegrationTestStatus, StepStatus } from "../../api/integration-test.ts";
import type { WebhookAsk } from "../../webhooks/webhook-runner.ts";
import { cut } from "../../evaluation/evaluate.ts";
import { advanceFinal } from "./final-expectations.ts";
import { type IntegrationTestInput, type Run, webhookTimeoutMs } from "./turn.ts";
import { complete, endRound, finish, roundStatus, withRound } from "./rounds.ts";
import { hashOf } from "../spec-hash.ts";
import { beginStep, decideStep } from "./step-decision.ts";
import { type Target, targetOf } from "../../evaluation/target.ts";
import { type EventClaim, iso, isOver, reportChangedSpec } from "../test-status.ts";
import { faultsOfIntegrationTest } from "../../manifests/validate-spec.ts";

/** What follows. The status is written before anything is done, and events are told after it. */
export interface IntegrationTestDecision {
  readonly status: DeepReadonly<IntegrationTestStatus>;
  /** Steps whose objects are to be applied or deleted now. */
  readonly acts: readonly { readonly index: number; readonly act: "Apply" | "Delete" }[];
  readonly asks: readonly WebhookAsk[];
  readonly events: readonly EventClaim[];
  /** The nearest moment at which something falls due. */
  readonly wakeAtMs?: number;
}

type Status = DeepReadonly<IntegrationTestStatus>;

/** The spec that a test runs by: as it was when the test started. */
export function frozenSpec(
  status: Status | undefined,
  spec: DeepReadonly<IntegrationTestSpec>,
): DeepReadonly<IntegrationTestSpec> {
  return (status?.frozenSpec as DeepReadonly<IntegrationTestSpec> | undefined) ?? spec;
}

/** What an IntegrationTest follows at this moment: the objects of the steps that run, or of the final expectations. */
export function targetsOf(spec: DeepReadonly<IntegrationTestSpec>, namespace: string): readonly Target[] {
  return [...spec.steps, ...(spec.finalExpectations ?? [])].flatMap(({ resource }) =>
    resource === undefined ? [] : [targetOf(resource, namespace)],
  );
}

/** Decides on a test: goes as far as what is known allows, in one go. */
export function decideIntegrationTest(input: IntegrationTestInput): IntegrationTestDecision {
  const { generation, status, now } = input;
  if (isOver(status)) return settled(reportChangedSpec(input, status));
  if (status.phase === undefined) return start(input);
  const spec = frozenSpec(status, input.spec);
  const run: Run = { input: { ...input, spec }, events: [], acts: [], asks: [], wakes: [] };
  const next = advance(run, reportChangedSpec({ ...input, generation }, status));
  const wakes = run.wakes.filter((at) => at > now);
  return {
    status: next,
    acts: run.acts,
    asks: run.asks,
    events: run.events,
    ...(wakes.length === 0 || isOver(next) ? {} : { wakeAtMs: Math.min(...wakes) }),
  };
}

const settled = (status: Status): IntegrationTestDecision => ({ status, acts: [], asks: [], events: [] });

function start({ spec, generation, namespace, now }: IntegrationTestInput): IntegrationTestDecision {
  const begun = { startTime: iso(now), observedGeneration: generation, specHash: hashOf(spec) };
  const faults = faultsOfIntegrationTest(spec, namespace);
  if (faults.length > 0) {
    const message = cut(faults.join("; "), 1024);
    return {
      ...settled({
        ...begun,
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
      ...begun,
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

function advance(run: Run, before: Status): Status {
  const { spec, now } = run.input;
  let status = before;
  const maxDuration = spec.repeat?.maxDurationSeconds ?? 0;
  const end = maxDuration > 0 ? Date.parse(status.startTime ?? iso(now)) + maxDuration * 1_000 : undefined;
  if (end !== undefined) run.wakes.push(end);

  if (status.nextRoundAt !== undefined) {
    if (end !== undefined && now >= end) return finish(run, status);
    const at = Date.parse(status.nextRoundAt);
    if (now < at) {
      run.wakes.push(at);
      return status;
    }
    const { nextRoundAt: _, finalExpectations: __, ...rest } = status;
    status = { ...rest, ...roundStatus(spec, (status.currentRound ?? 0) + 1, now) };
  }

  status = advanceSteps(run, status);
  const steps = status.steps ?? [];
  const isFailed = steps.some(({ state }) => state === "Failed");
  const isSequential = (spec.mode ?? "Sequential") === "Sequential";
  const isThrough = isFailed
    ? isSequential || steps.every(({ state }) => state === "Succeeded" || state === "Failed")
    : steps.every(({ state }) => state === "Succeeded");
  if (isThrough && !isFailed && (spec.finalExpectations?.length ?? 0) > 0) {
    status = advanceFinal(run, status);
    if (status.finalExpectations?.state === "Running") return stopIfOver(run, status, end);
    return endRound(run, status, status.finalExpectations?.state === "Failed" ? "Failed" : "Succeeded", end);
  }
  if (isThrough) return endRound(run, status, isFailed ? "Failed" : "Succeeded", end);
  return stopIfOver(run, status, end);
}

/** Ends the test in the middle of a round when its time is up: the round counts neither way. */
function stopIfOver(run: Run, status: Status, end: number | undefined): Status {
  if (end === undefined || run.input.now < end) return status;
  run.acts.length = 0;
  run.asks.length = 0;
  return finish(run, { ...status, roundHistory: withRound(run, status, "Stopped") });
}

function advanceSteps(run: Run, before: Status): Status {
  const { spec, namespace, observe, known, now } = run.input;
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
      run.events.push({ type: "Normal", reason: "StepStarted", note: `round ${before.currentRound ?? 1}: ${step.name}` });
    }
    const scope = `${before.currentRound ?? 1}/steps[${index}]`;
    const decision = decideStep({ step, status, namespace, observe, context: { scope, known, now, webhookTimeoutMs } });
    steps[index] = decision.status;
    if (decision.act !== undefined) run.acts.push({ index, act: decision.act });
    run.asks.push(...decision.asks);
    if (decision.wakeAtMs !== undefined) run.wakes.push(decision.wakeAtMs);
    tellStep(run, decision.status);
    if (isSequential && decision.status.state !== "Succeeded") break;
  }
  return { ...before, steps, currentStepIndex: current };
}

function tellStep(run: Run, { name, state, reason, message }: DeepReadonly<StepStatus>): void {
  if (state === "Succeeded") run.events.push({ type: "Normal", reason: "StepSucceeded", note: name });
  if (state === "Failed") {
    run.events.push({ type: "Warning", reason: "StepFailed", note: `${name}: ${reason ?? ""}: ${message ?? ""}` });
  }
}
