import { type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { IntegrationTestSpec, IntegrationTestStatus } from "../../api/integration-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { stepNamespace } from "../../clusters/step-namespace.ts";
import type { Target } from "../../evaluation/target.ts";
import { relatedTargets } from "../../evaluation/workload-pods.ts";
import { validateIntegrationTest } from "../../manifests/validate-integration-test.ts";
import { stepTarget } from "../../operations/step-objects.ts";
import type { WebhookCall } from "../../webhooks/webhook-runner.ts";
import { hashOf } from "../spec-hash.ts";
import { type EventDraft, iso, isFinished, reportChangedSpec } from "../test-status.ts";
import { advanceAfterMain, advanceMain, mainOutcome, resolveStep } from "./advance-steps.ts";
import { advanceFinal, finalTarget } from "./final-expectations.ts";
import { planOf } from "./plan.ts";
import { complete, endRound, finish, roundStatus, stopRunning, withRound } from "./rounds.ts";
import type { StepAct } from "./step-decision.ts";
import { endStoppedPrograms } from "./stopped-programs.ts";
import type { IntegrationTestInput, Turn } from "./turn.ts";

/** A decision. The status is written before actions are performed; events are recorded after the write. */
export interface IntegrationTestDecision {
  readonly status: DeepReadonly<IntegrationTestStatus>;
  /** Steps whose objects must be applied or deleted now. */
  readonly actions: readonly { readonly index: number; readonly act: StepAct }[];
  readonly webhookCalls: readonly WebhookCall[];
  readonly events: readonly EventDraft[];
  /** Time of the nearest deadline. */
  readonly wakeAtMs?: number;
  /** Whether to delete the test, whose time to live has passed. */
  readonly deletesTest?: boolean;
  /** Whether the test starts with this decision. */
  readonly isStart?: boolean;
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
export function targetsOf(
  input: Pick<IntegrationTestInput, "spec" | "status" | "namespace" | "name" | "uid" | "program">,
): readonly Target[] {
  const { spec, status, namespace } = input;
  const home = status.namespace ?? namespace;
  const steps = planOf(spec).flatMap((planned, index) => {
    // An expression may use the output of a step that has not run yet.
    const resolved = resolveStep({ input: input as IntegrationTestInput }, status, index, planned);
    return resolved.kind === "error" ? [] : [stepTarget(resolved.value, stepNamespace(spec, planned.step, home))];
  });
  const finals = (spec.finalExpectations ?? []).map((final) => finalTarget(spec, final, home));
  return [...steps, ...finals].flatMap((target) => (target === undefined ? [] : [target, ...relatedTargets(target)]));
}

/** The part of a spec that a test runs, without the fields that may be changed while it runs. */
function runSpec(spec: DeepReadonly<IntegrationTestSpec>): DeepReadonly<IntegrationTestSpec> {
  const { paused: _, abort: __, ttlSecondsAfterFinished: ___, ...rest } = spec;
  return rest;
}

/** Advances a test as far as the observations allow. */
export function decideIntegrationTest(input: IntegrationTestInput): IntegrationTestDecision {
  const { generation, status, now } = input;
  const changed = { spec: runSpec(input.spec), generation, now };
  if (isFinished(status)) return afterEnd(input, reportChangedSpec(changed, status));
  if (status.phase === undefined) return start(input);
  const spec = frozenSpec(status, input.spec);
  const turn: Turn = { input: { ...input, spec }, events: [], actions: [], webhookCalls: [], wakes: [] };
  const next = advance(turn, reportChangedSpec(changed, status), input.spec);
  const wakes = turn.wakes.filter((at) => at > now);
  return {
    status: next,
    actions: turn.actions,
    webhookCalls: turn.webhookCalls,
    events: turn.events,
    ...(wakes.length === 0 || isFinished(next) ? {} : { wakeAtMs: Math.min(...wakes) }),
  };
}

/** Deletes a finished test after its time to live. */
function afterEnd({ spec, now }: IntegrationTestInput, status: Status): IntegrationTestDecision {
  const seconds = spec.ttlSecondsAfterFinished;
  if (seconds === undefined) return settled(status);
  const at = Date.parse(status.completionTime ?? iso(now)) + seconds * 1_000;
  return now >= at ? { ...settled(status), deletesTest: true } : { ...settled(status), wakeAtMs: at };
}

const settled = (status: Status): IntegrationTestDecision => ({ status, actions: [], webhookCalls: [], events: [] });

function start(input: IntegrationTestInput): IntegrationTestDecision {
  const { generation, namespace, now } = input;
  const spec = runSpec(input.spec);
  const started = { startTime: iso(now), observedGeneration: generation, specHash: hashOf(spec) };
  const faults = validateIntegrationTest(spec, namespace);
  if (faults.length > 0) {
    const message = truncate(faults.join("; "), 1024);
    const end = { phase: "Failed", verdict: "Error", reason: "InvalidConfig", message } as const;
    return {
      ...settled({ ...started, ...end, completionTime: iso(now), conditions: complete(end, generation, now) }),
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
      ...roundStatus({ ...input, spec }, 1),
      conditions: [
        ...setCondition(
          undefined,
          { type: "Progressing", status: true, reason: "Running", observedGeneration: generation },
          now,
        ),
      ],
    }),
    events: [{ type: "Normal", reason: "IntegrationTestStarted", note: `${stepCount(spec)}, ${spec.mode ?? "Sequential"}` }],
    isStart: true,
  };
}

const stepCount = ({ steps }: DeepReadonly<IntegrationTestSpec>): string =>
  steps.length === 1 ? "1 step" : `${steps.length} steps`;

/** `live` is the spec as it is now, for the fields that may be changed while the test runs. */
function advance(turn: Turn, before: Status, live: DeepReadonly<IntegrationTestSpec>): Status {
  const { spec, now } = turn.input;
  const maxDuration = spec.repeat?.maxDurationSeconds ?? 0;
  const end = maxDuration > 0 ? Date.parse(before.startTime ?? iso(now)) + maxDuration * 1_000 : undefined;
  if (end !== undefined) turn.wakes.push(end);
  const isPaused = live.paused === true && live.abort !== true;
  const reported = reportPause(before, isPaused, now);
  if (reported.nextRoundAt !== undefined && !isDue(turn, reported, { end, isPaused, isAborted: live.abort === true })) {
    if (live.abort === true) return finish(turn, { ...reported, stopping: "Aborted" });
    return end !== undefined && now >= end ? finish(turn, reported) : reported;
  }
  const current = reported.nextRoundAt === undefined ? reported : nextRound(turn, reported);
  const stopping = live.abort === true ? "Aborted" : current.stopping;
  const status = stopping === undefined ? advanceMain(turn, current, isPaused) : stopped(turn, current, stopping);
  if (status.stopping !== undefined) return endStopped(turn, status);
  const outcome = mainOutcome(turn, status);
  const isLate = end !== undefined && now >= end;
  if (outcome === undefined) return isLate ? endStopped(turn, stopped(turn, status, "Expired")) : status;
  return endMain(turn, status, { outcome, end, isLate, isPaused });
}

interface Limits {
  readonly end: number | undefined;
  readonly isPaused: boolean;
  readonly isAborted: boolean;
}

/** Whether the next round starts now. */
function isDue(turn: Turn, { nextRoundAt = "" }: Status, { end, isPaused, isAborted }: Limits): boolean {
  const { now } = turn.input;
  const at = Date.parse(nextRoundAt);
  if (now < at) turn.wakes.push(at);
  return now >= at && !isPaused && !isAborted && (end === undefined || now < end);
}

function nextRound(turn: Turn, before: Status): Status {
  const { nextRoundAt: _, finalExpectations: __, outputs: ___, ...rest } = before;
  return { ...rest, ...roundStatus(turn.input, (before.currentRound ?? 0) + 1) };
}

/** Checks the final expectations and runs the steps after the main ones, then ends the round. */
function endMain(
  turn: Turn,
  before: Status,
  {
    outcome,
    end,
    isLate,
    isPaused,
  }: {
    readonly outcome: "Succeeded" | "Failed";
    readonly end: number | undefined;
    readonly isLate: boolean;
    readonly isPaused: boolean;
  },
): Status {
  let status = before;
  let result = outcome;
  if (outcome === "Succeeded" && (turn.input.spec.finalExpectations?.length ?? 0) > 0) {
    const state = status.finalExpectations?.state;
    if (state !== "Passed" && state !== "Failed") status = advanceFinal(turn, status);
    if (status.finalExpectations?.state === "Running")
      return isLate ? endStopped(turn, stopped(turn, status, "Expired")) : status;
    if (status.finalExpectations?.state === "Failed") result = "Failed";
  }
  const after = advanceAfterMain(turn, status, { outcome: result, isPaused });
  return after.isDone ? endRound(turn, after.status, result, end) : after.status;
}

/** Stops the running main and catch steps. Finally and cleanup steps continue, so that each runs once. */
function stopped(turn: Turn, status: Status, why: "Aborted" | "Expired"): Status {
  if (status.stopping !== undefined) return status;
  const { now } = turn.input;
  turn.actions.length = 0;
  turn.webhookCalls.length = 0;
  return { ...status, stopping: why, steps: stopRunning(status.steps ?? [], now, ["Main", "Catch"]) };
}

/** Ends the programs of a stopped round, runs its finally and cleanup steps, and finishes the test. The round counts as neither succeeded nor failed. */
function endStopped(turn: Turn, status: Status): Status {
  if (!endStoppedPrograms(turn, status)) return status;
  const after = advanceAfterMain(turn, status, { outcome: "Stopped", isPaused: false });
  if (!after.isDone) return after.status;
  return finish(turn, { ...after.status, roundHistory: withRound(turn, after.status, "Stopped") });
}

/** Sets the condition Paused while no further step is started. */
function reportPause(status: Status, isPaused: boolean, now: number): Status {
  const before = status.conditions?.find(({ type }) => type === "Paused");
  if (!isPaused && before === undefined) return status;
  const reason = isPaused ? "Paused" : "Resumed";
  const conditions = setCondition(status.conditions, { type: "Paused", status: isPaused, reason }, now);
  return conditions === status.conditions ? status : { ...status, conditions };
}
