import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTest } from "../api/integration-test.ts";
import type { LoadTest } from "../api/load-test.ts";

type Test = DeepReadonly<IntegrationTest> | DeepReadonly<LoadTest>;

/** Lines that describe what changed between two states of a test. */
export function progressLines(before: Test | undefined, after: Test): readonly string[] {
  const lines: string[] = [];
  const status = after.status;
  if (status === undefined) return lines;
  if (isIntegration(after)) {
    const old = before !== undefined && isIntegration(before) ? before.status : undefined;
    const isNewRound = (old?.currentRound ?? 0) !== (after.status?.currentRound ?? 0);
    // Rounds that finished since the last event: those before the current steps started, and the current one.
    const rounds: string[] = [];
    const current: string[] = [];
    for (const round of after.status?.roundHistory ?? []) {
      const last = old?.roundHistory?.at(-1)?.round ?? 0;
      if (round.round > last && (after.spec.repeat !== undefined || !round.succeeded)) {
        (round.round === after.status?.currentRound ? current : rounds).push(
          `round ${round.round}: ${round.outcome} in ${round.durationSeconds.toFixed(1)} s${round.failedStep === undefined ? "" : `: ${round.failedStep}: ${round.message ?? ""}`}`,
        );
      }
    }
    lines.push(...rounds);
    for (const [index, step] of (after.status?.steps ?? []).entries()) {
      const was = isNewRound ? undefined : old?.steps?.[index];
      const label = `  ${step.name}`;
      if (step.state === "Running" && (was?.state !== "Running" || was.stage !== step.stage || was.message !== step.message)) {
        lines.push(`${label}: ${(step.stage ?? "").toLowerCase()}${step.message === undefined ? "" : `: ${step.message}`}`);
      }
      if (step.state === was?.state) continue;
      if (step.state === "Succeeded") lines.push(`${label}: succeeded${tookOf(step.startedAt, step.finishedAt)}`);
      if (step.state === "Failed") lines.push(`${label}: FAILED: ${step.reason ?? ""}: ${step.message ?? ""}`);
    }
    lines.push(...current);
  } else {
    const old = before !== undefined && !isIntegration(before) ? before.status : undefined;
    if (status.phase !== old?.phase && status.completionTime === undefined) lines.push(`  ${status.phase ?? ""}`);
    if (status.message !== undefined && status.message !== old?.message && status.completionTime === undefined)
      lines.push(`  ${status.message}`);
    const line = after.status?.progress?.line;
    if (line !== undefined && line !== old?.progress?.line) lines.push(`  output: ${line}`);
    const health = after.status?.healthCheckStatus;
    if (health?.checkCount !== old?.healthCheckStatus?.checkCount) {
      lines.push(
        `  check ${health?.checkCount ?? 0}: ${health?.consecutiveFailures === 0 ? "held" : `failed, ${health?.consecutiveFailures ?? 0} in a row`}`,
      );
    }
  }
  if (status.completionTime !== undefined && before?.status?.completionTime === undefined) {
    lines.push(
      `${status.phase ?? ""}${status.phase === "Succeeded" ? "" : ` (${status.reason ?? ""})`}: ${status.message ?? ""}${tookOf(status.startTime, status.completionTime)}`,
    );
  }
  return lines;
}

const isIntegration = (test: Test): test is DeepReadonly<IntegrationTest> => test.kind === "IntegrationTest";

function tookOf(from: string | undefined, to: string | undefined): string {
  if (from === undefined || to === undefined) return "";
  return ` in ${(Math.max(Date.parse(to) - Date.parse(from), 0) / 1_000).toFixed(2)} s`;
}
