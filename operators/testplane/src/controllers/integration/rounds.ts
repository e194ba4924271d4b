import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import type { IntegrationTestStatus, RoundSummary, StepStatus } from "../../api/integration-test.ts";
import { truncate } from "../../evaluation/evaluate.ts";
import { scenarioOf } from "../../templating/test-variables.ts";
import { planOf, type StepPhase } from "./plan.ts";
import { stepPhases } from "../../api/step-status.ts";
import type { IntegrationTestInput, Turn } from "./turn.ts";
import { maxRoundHistory, verdictOfRound, withStatistics } from "./round-statistics.ts";
import { testVerdict, type Verdict } from "../../verdicts/verdict.ts";
import { iso } from "../test-status.ts";

type Status = DeepReadonly<IntegrationTestStatus>;

/** The part of a status that is reset for each round. */
export function roundStatus({ spec, now, name = "", uid = "" }: IntegrationTestInput, round: number) {
  const plan = planOf(spec);
  const scenario = scenarioOf(spec, round);
  const suffix = `-${uid.slice(0, 5)}-${round}`;
  return {
    currentRound: round,
    currentStepIndex: 0,
    progress: `1/${plan.filter(({ phase }) => phase === "Main").length}`,
    roundStartedAt: iso(now),
    ...(scenario === undefined ? {} : { scenario: scenario.name }),
    ...(spec.isolatedNamespace === true ? { namespace: `${name.slice(0, 63 - suffix.length)}${suffix}` } : {}),
    steps: plan.map(
      ({ name: step, phase }, index): DeepReadonly<StepStatus> => ({
        name: step,
        index,
        ...(phase === "Main" ? {} : { phase }),
        state: "",
      }),
    ),
  };
}

/** The statuses of steps after the running ones of some phases (default: all) were stopped. They have no verdict. */
export const stopRunning = (
  steps: readonly DeepReadonly<StepStatus>[],
  now: number,
  phases: readonly StepPhase[] = stepPhases,
): readonly DeepReadonly<StepStatus>[] =>
  steps.map((step) =>
    step.state === "Running" && phases.includes(step.phase ?? "Main")
      ? { ...step, state: "" as const, reason: "Stopped", finishedAt: iso(now) }
      : step,
  );

function summarizeRound(turn: Turn, status: Status, outcome: RoundSummary["outcome"]): DeepReadonly<RoundSummary> {
  const { now } = turn.input;
  const steps = (status.steps ?? []).filter(({ phase = "Main" }) => phase === "Main");
  const failedStep = (status.steps ?? []).find(({ state }) => state === "Failed");
  const startedAt = status.roundStartedAt ?? iso(now);
  const hasFailedFinally = status.finalExpectations?.state === "Failed";
  return {
    round: status.currentRound ?? 1,
    startedAt,
    finishedAt: iso(now),
    ...(status.scenario === undefined ? {} : { scenario: status.scenario }),
    outcome,
    succeeded: outcome === "Succeeded",
    verdict: verdictOfRound(status, outcome),
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

/** Finishes a round. After the last round the test finishes too; otherwise the next round is scheduled. */
export function endRound(turn: Turn, before: Status, mainOutcome: "Succeeded" | "Failed", end: number | undefined): Status {
  const { spec, now } = turn.input;
  // A round whose cleanup failed leaves objects behind.
  const outcome = before.steps?.some(({ state }) => state === "Failed") ? "Failed" : mainOutcome;
  const roundHistory = withRound(turn, before, outcome);
  const last = roundHistory[roundHistory.length - 1];
  const isFirstFailure = outcome === "Failed" && (before.failedRounds ?? 0) === 0;
  const status: Status = {
    ...before,
    completedRounds: (before.completedRounds ?? 0) + 1,
    failedRounds: (before.failedRounds ?? 0) + (outcome === "Failed" ? 1 : 0),
    roundHistory,
    ...(last === undefined ? {} : withStatistics(before, last)),
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
  const count = (repeat === undefined ? 1 : (repeat.count ?? 0)) * (spec.scenarios?.length ?? 1);
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
  const { now, spec } = turn.input;
  const { frozenSpec: _, nextRoundAt: __, stopping: ___, ...rest } = before;
  const { event, ...end } = endOf(before, spec.repeat?.flakyPolicy === "Quarantine");
  turn.events.push({ type: end.phase === "Succeeded" ? "Normal" : "Warning", reason: event, note: end.message });
  return finished({ ...rest, ...end, message: truncate(end.message, 1024) }, before.observedGeneration ?? 0, now);
}

interface End {
  readonly phase: "Succeeded" | "Failed" | "Aborted";
  readonly verdict: Verdict;
  /** Absent if the test passed. */
  readonly reason?: string;
  readonly message: string;
  readonly event: string;
}

/** How a test with these rounds ends. */
function endOf(status: Status, isQuarantined: boolean): End {
  const { completedRounds: rounds = 0, failedRounds: failures = 0, message = "" } = status;
  // A test that an earlier version of the operator started has no counts per verdict.
  if (status.stopping === "Aborted") {
    const text = `aborted after ${rounds} rounds`;
    return { phase: "Aborted", verdict: "Inconclusive", reason: "Aborted", message: text, event: "IntegrationTestAborted" };
  }
  const verdict = testVerdict(status.roundVerdicts ?? { passed: rounds - failures, failed: failures });
  if (verdict === undefined) {
    const current = status.steps?.[status.currentStepIndex ?? 0];
    const text = `no round finished within maxDurationSeconds; ${current?.name ?? ""}: ${current?.message ?? "not started"}`;
    return { phase: "Failed", verdict: "Timeout", reason: "Timeout", message: text, event: "IntegrationTestTimeout" };
  }
  if (verdict === "Passed") {
    const text = rounds === 1 ? "all steps succeeded" : `all ${rounds} rounds succeeded`;
    return { phase: "Succeeded", verdict, message: text, event: "IntegrationTestSucceeded" };
  }
  const text = rounds > 1 ? `${failures} of ${rounds} rounds failed; ${message}${rateOf(status, verdict)}` : message;
  if (verdict === "Flaky" && isQuarantined) {
    return { phase: "Succeeded", verdict, reason: "Quarantined", message: text, event: "IntegrationTestQuarantined" };
  }
  return {
    phase: "Failed",
    verdict,
    reason: status.reason ?? "StepFailed",
    message: text,
    event: "IntegrationTestFailed",
  };
}

/** The pass rate of a flaky test, as text. */
function rateOf({ passRate }: Status, verdict: Verdict): string {
  if (verdict !== "Flaky" || passRate === undefined) return "";
  return `; pass rate ${passRate.percent} %, 95 % interval ${passRate.lowPercent} to ${passRate.highPercent} %`;
}

function finished(status: Status, generation: number, now: number): Status {
  const steps = status.steps === undefined ? undefined : stopRunning(status.steps, now);
  return {
    ...status,
    ...(steps === undefined ? {} : { steps }),
    completionTime: iso(now),
    conditions: complete(status, generation, now),
  };
}

/** The conditions of a finished test: Complete if it succeeded, otherwise Failed. */
export function complete(
  { conditions, phase, reason = "Succeeded", message = "" }: Status,
  observedGeneration: number,
  now: number,
): readonly Condition[] {
  const common = { reason, message, observedGeneration };
  const isSuccess = phase === "Succeeded";
  const conditionsBefore = setCondition(conditions, { type: "Failed", status: !isSuccess, ...common }, now);
  return setCondition(
    setCondition(conditionsBefore, { type: "Progressing", status: false, ...common }, now),
    { type: "Complete", status: isSuccess, ...common },
    now,
  );
}
