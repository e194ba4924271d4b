import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { StatusMessage } from "../protocol/messages.ts";
import { decideReport, type ReportDecision } from "./report-decision.ts";
import type { TaskWrites } from "./task-writes.ts";

/**
 * Result of a report. `unwanted`: the robot should remove the task that it reports about. `postponed`: the robot should send it again,
 * because it is not decided yet which of two attempts remains.
 */
export type ReportOutcome = "stored" | "ignored" | "unwanted" | "postponed";

/** Options of {@link storeReport}. */
export interface StoreReportOptions {
  readonly writes: TaskWrites;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Stores a robot's report in the status of its Task. Reports on one Task must be passed one after the other.
 *
 * **Errors**: rejects if the report could neither be stored nor dismissed; the robot then sends it again.
 */
export async function storeReport(
  { writes, clock, log }: StoreReportOptions,
  robotId: string,
  report: StatusMessage,
): Promise<ReportOutcome> {
  const { decision, task, isWritten } = await writes.update(
    report.taskUid,
    report.attempt ?? 0,
    (current): ReportDecision & { readonly status?: ReportStatus } =>
      current === undefined
        ? { kind: "ignore", reason: "the task does not exist" }
        : decideReport(current, robotId, report, clock.now()),
  );
  if (isWritten) return "stored";
  if (decision.kind === "postpone") return "postponed";
  if (task === undefined) return report.state === "deleted" ? "ignored" : "unwanted";
  const reason = decision.kind === "ignore" ? decision.reason : "the task was deleted";
  log.debug({ task: task.metadata.name, robot: robotId, state: report.state }, `report ignored: ${reason}`);
  return task.spec.targetRobot !== robotId && report.state !== "deleted" ? "unwanted" : "ignored";
}

type ReportStatus = (ReportDecision & { readonly kind: "write" })["status"];
