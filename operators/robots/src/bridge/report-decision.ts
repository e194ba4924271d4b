import type { DeepReadonly } from "@keelson/api-machinery";
import { isLongRunning } from "../api/job.ts";
import type { Task } from "../api/task.ts";
import type { StatusMessage } from "../protocol/messages.ts";
import { conditionsOf } from "../work/conditions.ts";

const maxEvents = 20;

type TaskStatus = NonNullable<Task["status"]>;

/** What to do with a robot's report. */
export type ReportDecision =
  | { readonly kind: "write"; readonly status: TaskStatus }
  /** Change nothing. The robot need not send the report again. */
  | { readonly kind: "ignore"; readonly reason: string }
  /** Change nothing yet. The robot sends the report again. */
  | { readonly kind: "postpone" };

/**
 * Decides about a report on a Task.
 *
 * **Guarantees**: a report counts only if it comes from the robot that the Task is bound to, is about the current attempt, is newer
 * than the last stored report, and the attempt has not ended. Duplicate, late, reordered and foreign reports change nothing. An
 * original agent sends neither attempt nor sequence number; its reports count if they advance the state.
 *
 * An attempt that its robot has removed although its Task is not being deleted has failed.
 *
 * A Task with a restart or reschedule policy that ends is stored as `exited` if it failed, or if its Job is a service. The Task
 * controller decides whether it is restarted, moves, or has `failed`.
 */
export function decideReport(task: DeepReadonly<Task>, robotId: string, report: StatusMessage, now: number): ReportDecision {
  const status = task.status;
  const displaced = status?.displaced;
  if (displaced?.robot === robotId && displaced.attempt === report.attempt) {
    if (report.state === "deleted") {
      // A Task that has left its robot and was not dispatched again: no other attempt has to be removed.
      const isLast = task.metadata.deletionTimestamp !== undefined && reasonToIgnore(task, robotId, report) === undefined;
      const conditions = isLast ? { conditions: released(task, now) } : {};
      return { kind: "write", status: { ...ownedStatus(task), removedAttempt: displaced.attempt, ...conditions } };
    }
    return displaced.stop === true ? { kind: "ignore", reason: "the attempt is displaced" } : { kind: "postpone" };
  }
  const reason = reasonToIgnore(task, robotId, report);
  if (reason !== undefined) return { kind: "ignore", reason };
  if (report.state === "deleted" && task.metadata.deletionTimestamp !== undefined) {
    return { kind: "write", status: { ...ownedStatus(task), conditions: released(task, now) } };
  }
  // The robot has lost the task, or a bridge with an outdated cache had it removed. The robot does not run this attempt again.
  if (report.state === "deleted") return decideReport(task, robotId, removedReport(task, report), now);
  const lastSeq = status?.seq ?? 0;
  const hasEnded = report.state === "completed" || report.state === "failed";
  const nowText = new Date(now).toISOString();
  const before = ownedStatus(task);
  const {
    startedAt: pastStart,
    finishedAt: _,
    exitCode: _code,
    signal: _signal,
    logsStdout: _out,
    logsStderr: _err,
    permanent: _permanent,
    runningSince: _running,
    health: _health,
    passingSince: _passing,
    ...kept
  } = before;
  // Before the first report of this attempt, the stored start is the last attempt's.
  const startedAt =
    report.startedAt ?? (lastSeq > 0 ? pastStart : undefined) ?? (report.seq === undefined ? nowText : undefined);
  const exitCode = report.exitCode;
  const runningSince = runningSinceOf(task, report, nowText);
  return {
    kind: "write",
    status: {
      ...kept,
      state: hasEnded && mayContinue(task, report) ? "exited" : report.state,
      message: report.message,
      reason: report.leaseExpired === true ? "LeaseExpired" : report.event,
      ...(report.permanent === true ? { permanent: true } : {}),
      seq: report.seq ?? lastSeq + 1,
      ...(startedAt === undefined ? {} : { startedAt }),
      ...(runningSince === undefined ? {} : { runningSince }),
      ...healthAfter(task, report, nowText),
      ...(hasEnded ? { finishedAt: report.finishedAt ?? nowText } : {}),
      ...(report.restartCount === undefined ? {} : { restartCount: report.restartCount, lastRestartTime: nowText }),
      ...((hasEnded || report.event === "Restarting") && exitCode !== undefined ? { exitCode } : {}),
      ...(hasEnded && report.signal !== undefined ? { signal: report.signal } : {}),
      ...(hasEnded && report.logsStdout !== undefined ? { logsStdout: report.logsStdout } : {}),
      ...(hasEnded && report.logsStderr !== undefined ? { logsStderr: report.logsStderr } : {}),
      events: [...(before.events ?? []), eventOf(task, report, nowText)].slice(-maxEvents),
    },
  };
}

/** The end of an attempt that its robot has removed although the Task exists. A robot that lost the task counts its reports from 1 again. */
function removedReport({ status }: DeepReadonly<Task>, report: StatusMessage): StatusMessage {
  return { ...report, state: "failed", event: "Failed", seq: Math.max(report.seq ?? 0, (status?.seq ?? 0) + 1) };
}

function eventOf({ status }: DeepReadonly<Task>, { event, updatedAt, message }: StatusMessage, now: string) {
  return {
    type: event,
    time: updatedAt === "" ? now : updatedAt,
    displayMessage: message,
    details: { attempt: String(status?.attempt) },
  };
}

/** A robot's clock may be off, so this is the time at which its report arrived. */
function runningSinceOf({ status }: DeepReadonly<Task>, { state, event }: StatusMessage, now: string): string | undefined {
  if (state !== "running" || event === "Restarting") return undefined;
  const isNew = event === "Started" || status?.state !== "running" || status.reason === "Restarting";
  return isNew ? now : status.runningSince;
}

/** A program that was started has no health until its agent reports one. */
function healthAfter(
  { status }: DeepReadonly<Task>,
  { state, event, health }: StatusMessage,
  now: string,
): Pick<TaskStatus, "health" | "passingSince"> {
  if (state !== "running" || event === "Restarting") return {};
  const { health: before, passingSince = now } = event === "Started" ? {} : (status ?? {});
  const current = health ?? before;
  if (current === undefined) return {};
  if (current === "failing") return { health: current };
  return { health: current, passingSince: before === "passing" ? passingSince : now };
}

function reasonToIgnore(task: DeepReadonly<Task>, robotId: string, report: StatusMessage): string | undefined {
  const { status } = task;
  if (task.spec.targetRobot !== robotId) return "the task is bound to another robot";
  if (status?.attempt === undefined) return "the task was never dispatched";
  if (report.attempt !== undefined && report.attempt !== status.attempt) {
    return `it is about attempt ${report.attempt}, the current one is ${status.attempt}`;
  }
  if (report.state === "deleted" && task.metadata.deletionTimestamp !== undefined) return undefined;
  const state = status.state ?? "";
  if (state !== "dispatching" && state !== "running") return `the attempt has ended: ${state}`;
  const lastSeq = status.seq ?? 0;
  if (report.state === "dispatching" && state === "running") return "the task is already running";
  // A repeated confirmation is as true as a new one, so its number does not matter.
  if (report.state === "deleted") return undefined;
  if (report.seq !== undefined && report.seq <= lastSeq) return `report ${report.seq} is not newer than ${lastSeq}`;
  if (report.seq === undefined && report.state === "running" && state === "running") return "the state is unchanged";
  return undefined;
}

/** Whether another attempt may follow. A service is restarted when it succeeds, too. A permanent failure would repeat itself here. */
function mayContinue({ spec }: DeepReadonly<Task>, report: StatusMessage): boolean {
  if (report.leaseExpired === true) return true;
  if (report.state === "failed" && spec.reschedulePolicy !== undefined) return true;
  if (spec.restartPolicy === undefined || spec.restartPolicy.attempts === 0 || report.permanent === true) return false;
  return report.state === "failed" || isLongRunning(spec.type);
}

/** The part of a Task's status that the bridge owns. Server-side apply must repeat all of it. */
export function ownedStatus(task: DeepReadonly<Task>): TaskStatus {
  const own: Record<string, unknown> = {};
  for (const field of [
    "state",
    "message",
    "reason",
    "seq",
    "startedAt",
    "runningSince",
    "health",
    "passingSince",
    "finishedAt",
    "exitCode",
    "signal",
    "logsStdout",
    "logsStderr",
    "events",
    "permanent",
    "removedAttempt",
    "lease",
    "restartCount",
    "lastRestartTime",
  ] as const) {
    if (task.status?.[field] !== undefined) own[field] = task.status[field];
  }
  const conditions = task.status?.conditions?.filter(({ type }) => type === "Released") ?? [];
  if (conditions.length > 0) own.conditions = conditions;
  return own as TaskStatus;
}

function released(task: DeepReadonly<Task>, now: number): TaskStatus["conditions"] {
  const claim = {
    type: "Released",
    status: "True",
    observedGeneration: task.metadata.generation ?? 0,
    reason: "RemovedByRobot",
    message: `${task.spec.targetRobot ?? "the robot"} has removed the task`,
  } as const;
  return conditionsOf([claim], task.status?.conditions, now);
}
