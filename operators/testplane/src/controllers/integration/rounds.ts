import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { IntegrationTestSpec, IntegrationTestStatus, RoundSummary, StepStatus } from "../../api/integration-test.ts";
import { cut } from "../../evaluation/evaluate.ts";
import type { Run } from "./turn.ts";
import { iso } from "../test-status.ts";

type Status = DeepReadonly<IntegrationTestStatus>;

/** Rounds that a status remembers. */
const historyLength = 10;

/** The part of a status that begins anew with each round. */
export function roundStatus(spec: DeepReadonly<IntegrationTestSpec>, round: number, now: number) {
  return {
    currentRound: round,
    currentStepIndex: 0,
    roundStartedAt: iso(now),
    steps: spec.steps.map(({ name }, index): DeepReadonly<StepStatus> => ({ name, index, state: "" })),
  };
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

/** The history with this round in it. */
export const withRound = (run: Run, status: Status, outcome: RoundSummary["outcome"]): readonly DeepReadonly<RoundSummary>[] =>
  [...(status.roundHistory ?? []), summaryOf(run, status, outcome)].slice(-historyLength);

/** Ends a round, and with the last one the test; else says when the next begins. */
export function endRound(run: Run, before: Status, outcome: "Succeeded" | "Failed", end: number | undefined): Status {
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

/** Ends the test by what its rounds were. */
export function finish(run: Run, before: Status): Status {
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

/** The conditions of a test that has ended. */
export function complete(
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
