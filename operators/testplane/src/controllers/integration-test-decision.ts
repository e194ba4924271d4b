import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { IntegrationTestSpec, IntegrationTestStatus, RoundSummary, StepStatus } from "../api/integration-test.ts";
import type { WebhookAsk, WebhookKnowledge } from "../webhooks/webhook-runner.ts";
import { cut, evaluate, failureOf } from "./evaluate.ts";
import { hashOf } from "./spec-hash.ts";
import { beginStep, decideStep, defaultStepSeconds } from "./step-decision.ts";
import { type Observation, type Target, targetOf } from "./target.ts";
import { faultsOfIntegrationTest } from "./validate-spec.ts";

/** Rounds that a status remembers. */
const historyLength = 10;

/** How long a webhook may take. */
const webhookTimeoutMs = 10_000;

/** What a test is decided with. */
export interface IntegrationTestInput {
  readonly spec: DeepReadonly<IntegrationTestSpec>;
  readonly generation: number;
  readonly namespace: string;
  readonly status: DeepReadonly<IntegrationTestStatus>;
  readonly observe: (target: Target) => Observation;
  readonly known: (key: string) => WebhookKnowledge | undefined;
  readonly now: number;
}

/** An event to be told. */
export interface EventClaim {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly note: string;
}

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

const iso = (ms: number): string => new Date(ms).toISOString();

/** Whether a test has ended. */
export function isOver(status: { readonly phase?: string | undefined } | undefined): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed" || status?.phase === "Aborted";
}

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

/** What is gathered while a decision is made. */
interface Run {
  readonly input: IntegrationTestInput;
  readonly events: EventClaim[];
  readonly acts: { readonly index: number; readonly act: "Apply" | "Delete" }[];
  readonly asks: WebhookAsk[];
  readonly wakes: number[];
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

/** The part of a status that begins anew with each round. */
function roundStatus(spec: DeepReadonly<IntegrationTestSpec>, round: number, now: number) {
  return {
    currentRound: round,
    currentStepIndex: 0,
    roundStartedAt: iso(now),
    steps: spec.steps.map(({ name }, index): DeepReadonly<StepStatus> => ({ name, index, state: "" })),
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

function advanceFinal(run: Run, status: Status): Status {
  const { spec, namespace, observe, known, now } = run.input;
  const before = status.finalExpectations;
  const startedAt = before?.startedAt ?? iso(now);
  const results = [];
  const failures: string[] = [];
  let isFailed = false;
  let latest = 0;
  for (const [index, final] of (spec.finalExpectations ?? []).entries()) {
    const until = Date.parse(startedAt) + (final.expectations.timeoutSeconds || defaultStepSeconds) * 1_000;
    latest = Math.max(latest, until);
    const observation: Observation =
      final.resource === undefined
        ? { kind: "known", objects: [], hasSeen: () => true }
        : observe(targetOf(final.resource, namespace));
    if (observation.kind !== "known") {
      failures.push(
        `${final.name}: its object is not known${observation.kind === "loading" && observation.error ? `: ${observation.error}` : ""}`,
      );
      isFailed ||= now >= until;
      run.wakes.push(until);
      continue;
    }
    const scope = `${status.currentRound ?? 1}/finalExpectations[${index}]`;
    const evaluation = evaluate(final.expectations, observation.objects, { scope, known, now, webhookTimeoutMs });
    results.push(...evaluation.results);
    if (evaluation.passed) continue;
    failures.push(`${final.name}: ${failureOf(evaluation.results)}`);
    isFailed ||= evaluation.isFinal || now >= until;
    run.asks.push(...evaluation.asks);
    run.wakes.push(until, ...(evaluation.againAtMs === undefined ? [] : [evaluation.againAtMs]));
  }
  const common = { startedAt, deadline: iso(latest), results };
  if (failures.length === 0) return { ...status, finalExpectations: { ...common, state: "Passed", finishedAt: iso(now) } };
  const message = cut(failures.join("; "), 1024);
  if (!isFailed) return { ...status, message, finalExpectations: { ...common, state: "Running" } };
  return { ...status, message, finalExpectations: { ...common, state: "Failed", finishedAt: iso(now) } };
}

function summaryOf(run: Run, status: Status, outcome: RoundSummary["outcome"]): DeepReadonly<RoundSummary> {
  const { now } = run.input;
  const steps = status.steps ?? [];
  const failedStep = steps.find(({ state }) => state === "Failed");
  const startedAt = status.roundStartedAt ?? iso(now);
  const isFinal = status.finalExpectations?.state === "Failed";
  return {
    round: status.currentRound ?? 1,
    startedAt,
    finishedAt: iso(now),
    outcome,
    succeeded: outcome === "Succeeded",
    ...(failedStep === undefined
      ? isFinal
        ? { failedStep: "finalExpectations", message: cut(status.message ?? "") }
        : {}
      : { failedStep: failedStep.name, message: cut(`${failedStep.reason ?? ""}: ${failedStep.message ?? ""}`) }),
    stepCount: steps.length,
    succeededSteps: steps.filter(({ state }) => state === "Succeeded").length,
    durationSeconds: Math.max(now - Date.parse(startedAt), 0) / 1_000,
  };
}

const withRound = (run: Run, status: Status, outcome: RoundSummary["outcome"]): readonly DeepReadonly<RoundSummary>[] =>
  [...(status.roundHistory ?? []), summaryOf(run, status, outcome)].slice(-historyLength);

function endRound(run: Run, before: Status, outcome: "Succeeded" | "Failed", end: number | undefined): Status {
  const { spec, now } = run.input;
  const roundHistory = withRound(run, before, outcome);
  const last = roundHistory[roundHistory.length - 1];
  const isFirstFailure = outcome === "Failed" && (before.failedRounds ?? 0) === 0;
  const status: Status = {
    ...before,
    completedRounds: (before.completedRounds ?? 0) + 1,
    failedRounds: (before.failedRounds ?? 0) + (outcome === "Failed" ? 1 : 0),
    roundHistory,
    // The first failure is what the test's reason tells in the end, however many rounds follow.
    ...(isFirstFailure
      ? {
          reason: before.steps?.some(({ state, reason }) => state === "Failed" && reason === "Timeout")
            ? "Timeout"
            : "StepFailed",
          message: cut(`round ${last?.round ?? 1}: ${last?.failedStep ?? ""}: ${last?.message ?? ""}`, 1024),
        }
      : {}),
  };
  const { repeat } = spec;
  const count = repeat === undefined ? 1 : (repeat.count ?? 0);
  const isLast =
    (count > 0 && (status.completedRounds ?? 0) >= count) ||
    (outcome === "Failed" && repeat?.untilFailure === true) ||
    (end !== undefined && now >= end);
  if (isLast) return finish(run, status);
  // Persisted, so that neither a restart nor the event of this very write begins the round early.
  const at = now + (repeat?.delayBetweenRounds ?? 0) * 1_000;
  run.wakes.push(Math.max(at, now + 1));
  return { ...status, nextRoundAt: iso(at) };
}

function finish(run: Run, before: Status): Status {
  const { now } = run.input;
  const { frozenSpec: _, nextRoundAt: __, message, reason, ...rest } = before;
  const rounds = before.completedRounds ?? 0;
  const failures = before.failedRounds ?? 0;
  const generation = before.observedGeneration ?? 0;
  if (failures > 0) {
    const text = rounds > 1 ? `${failures} of ${rounds} rounds failed; ${message ?? ""}` : (message ?? "");
    run.events.push({ type: "Warning", reason: "IntegrationTestFailed", note: text });
    return ended({ ...rest, phase: "Failed", reason: reason ?? "StepFailed", message: cut(text, 1024) }, generation, now);
  }
  if (rounds === 0) {
    const current = before.steps?.[before.currentStepIndex ?? 0];
    const text = `no round was done within maxDurationSeconds; ${current?.name ?? ""}: ${current?.message ?? "not begun"}`;
    run.events.push({ type: "Warning", reason: "IntegrationTestTimeout", note: text });
    return ended({ ...rest, phase: "Failed", reason: "Timeout", message: cut(text, 1024) }, generation, now);
  }
  const text = rounds === 1 ? "all steps succeeded" : `all ${rounds} rounds succeeded`;
  run.events.push({ type: "Normal", reason: "IntegrationTestSucceeded", note: text });
  return ended({ ...rest, phase: "Succeeded", message: text }, generation, now);
}

function ended(status: Status, generation: number, now: number): Status {
  // What was still running when the test's time was up runs no more.
  const steps = status.steps?.map((step) =>
    step.state === "Running" ? { ...step, state: "" as const, reason: "Stopped", finishedAt: iso(now) } : step,
  );
  return {
    ...status,
    ...(steps === undefined ? {} : { steps }),
    completionTime: iso(now),
    conditions: complete(status.conditions, status.reason ?? "Succeeded", status.message ?? "", generation, now),
  };
}

function complete(
  conditions: DeepReadonly<Condition[]> | undefined,
  reason: string,
  message: string,
  observedGeneration: number,
  now: number,
): readonly Condition[] {
  const common = { reason, message, observedGeneration };
  return setCondition(
    setCondition(conditions, { type: "Progressing", status: false, ...common }, now),
    { type: "Complete", status: true, ...common },
    now,
  );
}

/** Says once that a changed spec is not followed; takes it back when the spec is again what runs. */
function reportChangedSpec({ spec, generation, now }: IntegrationTestInput, status: Status): Status {
  const isChanged = status.specHash !== undefined && hashOf(spec) !== status.specHash;
  const before = status.conditions?.find(({ type }) => type === "SpecChangedIgnored");
  if (!isChanged && before === undefined) return status;
  const conditions = setCondition(
    status.conditions,
    isChanged
      ? {
          type: "SpecChangedIgnored",
          status: true,
          reason: "SpecChanged",
          message: "the spec was changed after the test had started; delete the test and apply it again to run the new one",
          observedGeneration: generation,
        }
      : { type: "SpecChangedIgnored", status: false, reason: "SpecAsStarted", observedGeneration: generation },
    now,
  );
  return conditions === status.conditions ? status : { ...status, conditions };
}
