import type { DeepReadonly } from "@keelson/api-machinery";
import type { Task } from "../api/task.ts";
import { conditionsOf } from "../work/conditions.ts";
import type { StatusMessage } from "../protocol/messages.ts";

const maxEvents = 20;

type TaskStatus = NonNullable<Task["status"]>;

/** What a robot's report does to its Task. */
export type ReportDecision =
  | { readonly kind: "write"; readonly status: TaskStatus }
  /** Nothing, and the robot need not say it again. */
  | { readonly kind: "ignore"; readonly why: string };

/**
 * Decides about a report on a Task.
 *
 * **Guarantees**: a report counts only where it comes from the robot that the Task is bound to, is about the present attempt,
 * is newer than the last that counted, and the attempt has not ended; so what arrives twice, late, out of order or from
 * elsewhere changes nothing. Reports of an original agent have neither attempt nor number: they count where they lead on.
 *
 * A failure of a Task with a restart policy is stored as `exited`: whether it is `failed` is the Task controller's to say.
 */
export function decideReport(task: DeepReadonly<Task>, robotId: string, report: StatusMessage, now: number): ReportDecision {
  const status = task.status;
  if (task.spec.targetRobot !== robotId) return { kind: "ignore", why: "the task is not this robot's" };
  if (status?.attempt === undefined) return { kind: "ignore", why: "the task was not sent to a robot" };
  if (report.attempt !== undefined && report.attempt !== status.attempt) {
    return { kind: "ignore", why: `it is about attempt ${report.attempt}, the present one is ${status.attempt}` };
  }
  if (report.state === "deleted") {
    if (task.metadata.deletionTimestamp === undefined) return { kind: "ignore", why: "the task is not being deleted" };
    return { kind: "write", status: { ...bridgePart(task), conditions: released(task, now) } };
  }
  const state = status.state ?? "";
  if (state !== "dispatching" && state !== "running") return { kind: "ignore", why: `the attempt has ended: ${state}` };
  const lastSeq = status.seq ?? 0;
  if (report.seq !== undefined && report.seq <= lastSeq)
    return { kind: "ignore", why: `report ${report.seq} is not newer than ${lastSeq}` };
  if (report.seq === undefined && report.state === "running" && state === "running") {
    return { kind: "ignore", why: "it says nothing new" };
  }

  const isOver = report.state !== "running";
  const nowText = new Date(now).toISOString();
  const before = bridgePart(task);
  const {
    startedAt: pastStart,
    finishedAt: _,
    exitCode: _code,
    signal: _signal,
    logsStdout: _out,
    logsStderr: _err,
    ...kept
  } = before;
  // With no report counted yet, what is there of start and end is the last attempt's.
  const startedAt =
    report.startedAt ?? (lastSeq > 0 ? pastStart : undefined) ?? (report.seq === undefined ? nowText : undefined);
  const exitCode = report.exitCode;
  return {
    kind: "write",
    status: {
      ...kept,
      state: report.state === "failed" && mayStartAgain(task) ? "exited" : report.state,
      message: report.message,
      reason: report.event,
      seq: report.seq ?? lastSeq + 1,
      ...(startedAt === undefined ? {} : { startedAt }),
      ...(isOver ? { finishedAt: report.finishedAt ?? nowText } : {}),
      ...(isOver && exitCode !== undefined ? { exitCode } : {}),
      ...(isOver && report.signal !== undefined ? { signal: report.signal } : {}),
      ...(isOver && report.logsStdout !== undefined ? { logsStdout: report.logsStdout } : {}),
      ...(isOver && report.logsStderr !== undefined ? { logsStderr: report.logsStderr } : {}),
      events: [
        ...(before.events ?? []),
        {
          type: report.event,
          time: report.updatedAt === "" ? nowText : report.updatedAt,
          displayMessage: report.message,
          details: { attempt: String(status.attempt) },
        },
      ].slice(-maxEvents),
    },
  };
}

function mayStartAgain(task: DeepReadonly<Task>): boolean {
  return task.spec.restartPolicy !== undefined && task.spec.restartPolicy.attempts !== 0;
}

/** What the bridge owns of a Task's status: an apply has to repeat all of it. */
function bridgePart(task: DeepReadonly<Task>): TaskStatus {
  const own: Record<string, unknown> = {};
  for (const field of [
    "state",
    "message",
    "reason",
    "seq",
    "startedAt",
    "finishedAt",
    "exitCode",
    "signal",
    "logsStdout",
    "logsStderr",
    "events",
  ] as const) {
    if (task.status?.[field] !== undefined) own[field] = task.status[field];
  }
  return own as TaskStatus;
}

function released(task: DeepReadonly<Task>, now: number): TaskStatus["conditions"] {
  const claim = {
    type: "Released",
    status: "True",
    observedGeneration: task.metadata.generation ?? 0,
    reason: "RemovedByRobot",
    message: `nothing of the task is left on ${task.spec.targetRobot ?? "its robot"}`,
  } as const;
  return conditionsOf([claim], task.status?.conditions, now);
}
