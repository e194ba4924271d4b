import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { IntegrationTestSpec, IntegrationTestStatus, RoundSummary, StepStatus } from "../../api/integration-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import type { Turn } from "./turn.ts";
import { appendToRanges } from "../../api/round-ranges.ts";
import { iso } from "../test-status.ts";

type Status = DeepReadonly<IntegrationTestStatus>;

/** Maximum rounds in `status.roundHistory` and in `status.failedRoundHistory`. */
const maxRoundHistory = 10;

/** The part of a status that is reset for each round. */
export function roundStatus(spec: DeepReadonly<IntegrationTestSpec>, round: number, now: number) {
  return {
    currentRound: round,
    currentStepIndex: 0,
    progress: `1/${spec.steps.length}`,
    roundStartedAt: iso(now),
    steps: spec.steps.map(({ name }, index): DeepReadonly<StepStatus> => ({ name, index, state: "" })),
  };
}

function summarizeRound(turn: Turn, status: Status, outcome: RoundSummary["outcome"]): DeepReadonly<RoundSummary> {
  const { now } = turn.input;
  const steps = status.steps ?? [];
  const failedStep = steps.find(({ state }) => state === "Failed");
  const startedAt = status.roundStartedAt ?? iso(now);
  const hasFailedFinally = status.finalExpectations?.state === "Failed";
  return {
    round: status.currentRound ?? 1,
    startedAt,
    finishedAt: iso(now),
    outcome,
    succeeded: outcome === "Succeeded",
    ...(failedStep === undefined
      ? hasFailedFinally
        ? { failedStep: "finalExpectations", message: truncate(status.message ?? "") }
        : {}
      : { failedStep: failedStep.name, message: truncate(`${failedStep.reason ?? ""}: ${failedStep.message ?? ""}`) }),
    stepCount: steps.length,
    succeededSteps: steps.filter(({ state }) => state === "Succeeded").length,
    durationSeconds: Math.max(now - Date.parse(startedAt), 0) / 1_000,
  };
}

/** The round history with the current round appended. */
export const withRound = (
  turn: Turn,
  status: Status,
  outcome: RoundSummary["outcome"],
): readonly DeepReadonly<RoundSummary>[] =>
  [...(status.roundHistory ?? []), summarizeRound(turn, status, outcome)].slice(-maxRoundHistory);

/** Statistics that cover all rounds, whatever the round history still has. */
function withStatistics(before: Status, round: DeepReadonly<RoundSummary> | undefined): Partial<Status> {
  if (round === undefined) return {};
  const { durationSeconds: seconds } = round;
  const durations = before.roundDurations;
  const roundDurations = {
    minSeconds: Math.min(durations?.minSeconds ?? seconds, seconds),
    maxSeconds: Math.max(durations?.maxSeconds ?? seconds, seconds),
    totalSeconds: (durations?.totalSeconds ?? 0) + seconds,
  };
  if (round.succeeded) return { roundDurations };
  return {
    roundDurations,
    failedRoundRanges: appendToRanges(before.failedRoundRanges, round.round),
    failedRoundHistory: [...(before.failedRoundHistory ?? []), round].slice(0, maxRoundHistory),
  };
}

/** Finishes a round. After the last round the test finishes too; otherwise the next round is scheduled. */
export function endRound(turn: Turn, before: Status, outcome: "Succeeded" | "Failed", end: number | undefined): Status {
  const { spec, now } = turn.input;
  const roundHistory = withRound(turn, before, outcome);
  const last = roundHistory[roundHistory.length - 1];
  const isFirstFailure = outcome === "Failed" && (before.failedRounds ?? 0) === 0;
  const status: Status = {
    ...before,
    completedRounds: (before.completedRounds ?? 0) + 1,
    failedRounds: (before.failedRounds ?? 0) + (outcome === "Failed" ? 1 : 0),
    roundHistory,
    ...withStatistics(before, last),
    // The test reports the first failure, however many rounds follow.
    ...(isFirstFailure
      ? {
          reason: before.steps?.some(({ state, reason }) => state === "Failed" && reason === "Timeout")
            ? "Timeout"
            : "StepFailed",
          message: truncate(`round ${last?.round ?? 1}: ${last?.failedStep ?? ""}: ${last?.message ?? ""}`, 1024),
        }
      : {}),
  };
  const { repeat } = spec;
  const count = repeat === undefined ? 1 : (repeat.count ?? 0);
  const isLast =
    (count > 0 && (status.completedRounds ?? 0) >= count) ||
    (outcome === "Failed" && repeat?.untilFailure === true) ||
    (end !== undefined && now >= end);
  if (isLast) return finish(turn, status);
  // Persisted, so that neither a restart nor the watch event of this write starts the round early.
  const at = now + (repeat?.delayBetweenRounds ?? 0) * 1_000;
  turn.wakes.push(Math.max(at, now + 1));
  return { ...status, nextRoundAt: iso(at) };
}

/** Finishes the test with the verdict of its rounds. */
export function finish(turn: Turn, before: Status): Status {
  const { now } = turn.input;
  const { frozenSpec: _, nextRoundAt: __, message, reason, ...rest } = before;
  const rounds = before.completedRounds ?? 0;
  const failures = before.failedRounds ?? 0;
  const generation = before.observedGeneration ?? 0;
  if (failures > 0) {
    const text = rounds > 1 ? `${failures} of ${rounds} rounds failed; ${message ?? ""}` : (message ?? "");
    turn.events.push({ type: "Warning", reason: "IntegrationTestFailed", note: text });
    return finished(
      { ...rest, phase: "Failed", reason: reason ?? "StepFailed", message: truncate(text, 1024) },
      generation,
      now,
    );
  }
  if (rounds === 0) {
    const current = before.steps?.[before.currentStepIndex ?? 0];
    const text = `no round finished within maxDurationSeconds; ${current?.name ?? ""}: ${current?.message ?? "not started"}`;
    turn.events.push({ type: "Warning", reason: "IntegrationTestTimeout", note: text });
    return finished({ ...rest, phase: "Failed", reason: "Timeout", message: truncate(text, 1024) }, generation, now);
  }
  const text = rounds === 1 ? "all steps succeeded" : `all ${rounds} rounds succeeded`;
  turn.events.push({ type: "Normal", reason: "IntegrationTestSucceeded", note: text });
  return finished({ ...rest, phase: "Succeeded", message: text }, generation, now);
}

function finished(status: Status, generation: number, now: number): Status {
  // Steps that were still running when maxDurationSeconds expired have no verdict.
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

/** The conditions of a finished test. */
export function complete(
  conditions: DeepReadonly<Condition[]> | undefined,
  reason: string,
  message: string,
  observedGeneration: number,
  now: number,
): readonly Condition[] {
  const common = { reason, message, observedGeneration };
  const isSuccess = reason === "Succeeded";
  const conditionsBefore = setCondition(conditions, { type: "Failed", status: !isSuccess, ...common }, now);
  return setCondition(
    setCondition(conditionsBefore, { type: "Progressing", status: false, ...common }, now),
    { type: "Complete", status: isSuccess, ...common },
    now,
  );
}
