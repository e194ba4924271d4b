import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTestStatus, RoundSummary } from "../../api/integration-test.ts";
import { appendToRanges } from "../../api/round-ranges.ts";
import { addDuration, percentile } from "../../verdicts/duration-histogram.ts";
import { passRate } from "../../verdicts/pass-rate.ts";
import { countVerdict, type RoundVerdict } from "../../verdicts/verdict.ts";

type Status = DeepReadonly<IntegrationTestStatus>;

/** Maximum rounds in `status.roundHistory` and in `status.failedRoundHistory`. */
export const maxRoundHistory = 10;

/** Adds a finished round to the statistics, which cover all rounds whatever the round history still has. */
export function withStatistics(before: Status, round: DeepReadonly<RoundSummary>): Partial<Status> {
  const counts = countVerdict(before.roundVerdicts, round.verdict ?? "Failed");
  const rate = passRate(counts);
  const statistics = {
    roundVerdicts: counts,
    ...(rate === undefined ? {} : { passRate: rate }),
    roundDurations: addRound(before, round.durationSeconds),
  };
  if (round.succeeded) return statistics;
  return {
    ...statistics,
    failedRoundRanges: appendToRanges(before.failedRoundRanges, round.round),
    failedRoundHistory: [...(before.failedRoundHistory ?? []), round].slice(0, maxRoundHistory),
  };
}

function addRound({ roundDurations: before, completedRounds = 0 }: Status, seconds: number) {
  const histogram = addDuration(before?.histogram, seconds);
  const totalSeconds = (before?.totalSeconds ?? 0) + seconds;
  const minSeconds = Math.min(before?.minSeconds ?? seconds, seconds);
  const maxSeconds = Math.max(before?.maxSeconds ?? seconds, seconds);
  // The middle of a bucket can lie outside of what was observed.
  const bounded = (percent: number): number =>
    Math.min(Math.max(percentile(histogram, percent) ?? seconds, minSeconds), maxSeconds);
  return {
    minSeconds,
    maxSeconds,
    totalSeconds,
    meanSeconds: totalSeconds / (completedRounds + 1),
    p50Seconds: bounded(50),
    p95Seconds: bounded(95),
    histogram,
  };
}

/** The verdict of a round: that of its first failed step, main steps first. */
export function verdictOfRound(status: Status, outcome: RoundSummary["outcome"]): RoundVerdict {
  if (outcome === "Succeeded") return "Passed";
  if (outcome === "Stopped") return "Inconclusive";
  const failed = status.steps?.find(({ state }) => state === "Failed");
  if (failed === undefined) return "Failed";
  // A failed cleanup says nothing about the system under test.
  return (failed.phase ?? "Main") === "Main" ? (failed.verdict ?? "Failed") : "Error";
}
