import type { Exited } from "@keelson/execution";
import type { StatusMessage } from "../protocol/messages.ts";
import {
  type AgentEffect,
  type AgentEvent,
  type AgentState,
  change,
  discard,
  type HeldTask,
  publish,
  type Step,
  withReport,
} from "./held-task.ts";
import { mayChange } from "./files/task-template.ts";
import { planRestart, restartDue, restartsHere } from "./local-restart.ts";
import { checkLeases, leaseAnswered } from "./leases/task-lease.ts";
import { reportOfExit } from "./tasks/task-reports.ts";
import type { ReportBody } from "./tasks/task-reports.ts";

const isPowerOfTwo = (n: number): boolean => n > 0 && (n & (n - 1)) === 0;

/**
 * The agent's decisions, as a pure function.
 *
 * **Guarantees**: an attempt starts at most once, except for restarts by its policy. A terminal report is an attempt's last, except for `deleted`. Sequence numbers of
 * an attempt increase. A late create does not run a task whose deletion was confirmed.
 */
export function step(state: AgentState, event: AgentEvent, now: number): Step {
  switch (event.kind) {
    case "connected":
      return { state, effects: [...state.tasks.values()].flatMap((task) => (task.isAcknowledged ? [] : publish(task))) };
    case "tick":
      return tick(state);
    case "create":
      return create(state, event, now);
    case "delete":
      return remove(state, event, now);
    case "started":
    case "exited":
      return progress(state, event, now);
    case "downloading":
    case "rendered":
    case "templates-changed":
      return filesChanged(state, event, now);
    case "checked":
      return checked(state, event, now);
    case "removed":
      return removed(state, event.uid, now);
    case "lease-answer":
      return leaseAnswered(state, event, (next, { taskUid, attempt }) =>
        remove(next, { kind: "delete", uid: taskUid, attempt }, now),
      );
    case "restart-check":
      return restartDue(state, now);
    case "lease-check":
      return checkLeases(state, event.bootMs);
    case "ack": {
      const task = state.tasks.get(event.uid);
      if (task === undefined || task.isAcknowledged) return { state, effects: [] };
      if (task.attempt !== event.attempt || task.seq !== event.seq) return { state, effects: [] };
      return change(state, { ...task, isAcknowledged: true }, () => []);
    }
  }
}

/**
 * Repeats unacknowledged reports with exponential backoff. The bridge may have been down, or an original server, which never
 * acknowledges.
 */
function tick(state: AgentState): Step {
  const tasks = new Map(state.tasks);
  const effects: AgentEffect[] = [];
  for (const task of state.tasks.values()) {
    if (task.isAcknowledged || task.report === undefined) continue;
    const ticks = task.ticks + 1;
    tasks.set(task.uid, { ...task, ticks });
    if (isPowerOfTwo(ticks)) effects.push(...publish(task));
  }
  return { state: { ...state, tasks }, effects };
}

function create(state: AgentState, event: AgentEvent & { readonly kind: "create" }, now: number): Step {
  const { uid, attempt } = event;
  const held = state.tasks.get(uid);
  if (held !== undefined && attempt <= held.attempt) {
    // A repeated create: the server may have missed the answer.
    const isAnswered = attempt === held.attempt && held.phase !== "deleting" && held.phase !== "gone";
    return { state, effects: isAnswered ? publish(held) : [] };
  }
  if (held?.phase === "deleting") return { state, effects: [] };
  if (held !== undefined && "order" in event && event.adopts === held.attempt) {
    const adopted = adopt(state, held, attempt, now);
    if (adopted !== undefined) return adopted;
  }
  const leftover = held === undefined ? [] : discard(held);
  const base = { uid, attempt, seq: 0, isAcknowledged: true, ticks: 0, changedAt: now };
  if ("problem" in event) {
    const body: ReportBody = {
      state: "failed",
      event: "StartFailed",
      message: `Task cannot run on this robot: ${event.problem}`,
      permanent: true,
    };
    return change(state, withReport(state, { ...base, phase: "ended" }, body, now), (task) => [...leftover, ...publish(task)]);
  }
  const { order } = event;
  const accepted: HeldTask = {
    ...base,
    phase: "accepted",
    order,
    programAttempt: attempt,
    ...(order.lease === undefined ? {} : { lease: order.lease }),
  };
  return change(state, accepted, () => [
    ...leftover,
    order.lease === undefined ? { kind: "start", uid, attempt, order } : { kind: "request-lease", uid },
  ]);
}

/** The current attempt continues as `attempt`: its program keeps running, or its end is the end of the new attempt. */
function adopt(state: AgentState, held: HeldTask, attempt: number, now: number): Step | undefined {
  const renamed: HeldTask = { ...held, attempt, seq: 0 };
  const { report } = held;
  if (held.phase === "accepted" || held.phase === "waiting") return change(state, renamed, () => []);
  if (held.phase === "ended" && report !== undefined) {
    return change(state, withReport(state, renamed, bodyOf(report), now), publish);
  }
  if (held.phase !== "running") return undefined;
  const startedAt = report?.startedAt;
  const body: ReportBody = {
    state: "running",
    event: "Started",
    message: `Task continues as attempt ${attempt}`,
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(held.health === undefined ? {} : { health: held.health }),
  };
  return change(state, withReport(state, renamed, body, now), publish);
}

function bodyOf(report: StatusMessage): ReportBody {
  const { taskUid: _uid, robotName: _robot, updatedAt: _at, attempt: _attempt, seq: _seq, ...body } = report;
  return body;
}

function remove(state: AgentState, event: AgentEvent & { readonly kind: "delete" }, now: number): Step {
  const { uid } = event;
  const held = state.tasks.get(uid);
  if (held === undefined) {
    const unknown: HeldTask = {
      uid,
      attempt: event.attempt,
      phase: "gone",
      seq: 0,
      isAcknowledged: true,
      ticks: 0,
      changedAt: now,
    };
    return change(state, withReport(state, unknown, unknownBody, now), publish);
  }
  // A late delete of an earlier attempt. Attempt 0 comes from a server without attempts and deletes any.
  if (event.attempt > 0 && event.attempt < held.attempt) return { state, effects: [] };
  if (held.phase === "deleting") return { state, effects: [] };
  // The confirmation must name the server's attempt, even if that attempt never arrived here.
  const attempt = Math.max(held.attempt, event.attempt);
  const seq = attempt === held.attempt ? held.seq : 0;
  if (held.phase === "gone") {
    if (attempt === held.attempt) return { state, effects: publish(held) };
    return change(state, withReport(state, { ...held, attempt, seq }, deletedBody, now), publish);
  }
  const { order: _, report: _report, ...rest } = held;
  const deleting: HeldTask = { ...rest, attempt, seq, phase: "deleting", isAcknowledged: true, changedAt: now };
  return change(state, deleting, (task) => [...discard(task), { kind: "clear", uid, answer: true }]);
}

const deletedBody: ReportBody = { state: "deleted", event: "Deleted", message: "The robot has removed the task" };
/** Nothing was removed: the task never arrived, or its record was lost. */
const unknownBody: ReportBody = { ...deletedBody, message: "The robot does not have the task" };

function removed(state: AgentState, uid: string, now: number): Step {
  const held = state.tasks.get(uid);
  if (held?.phase !== "deleting") return { state, effects: [] };
  const { programAttempt: _, ...rest } = held;
  return change(state, withReport(state, { ...rest, phase: "gone" }, deletedBody, now), publish);
}

function progress(state: AgentState, event: AgentEvent & { readonly kind: "started" | "exited" }, now: number): Step {
  const current = currentTask(state, event);
  if (current === undefined) return { state, effects: [] };
  const { health: _health, failedCheck, ...held } = current;
  const { order: _, ...rest } = held;
  if (event.kind === "exited") {
    const exited = exitAfterChecks(event.exited, failedCheck, held);
    const restart = planRestart(held, { ...event, exited }, now);
    if (restart?.kind === "restart") return change(state, withReport(state, restart.task, restart.body, now), publish);
    const isLeaseExpired = held.lease?.isFenced === true && exited.reason === "Stopped";
    const body = {
      ...reportOfExit(exited, event.logs),
      ...(event.isDownload === true ? { event: "DownloadFailed" as const } : {}),
      ...(event.isPermanent ? { permanent: true } : {}),
      ...(restart === undefined
        ? {}
        : { state: "failed" as const, event: "Failed" as const, message: restart.message, permanent: true }),
      ...(isLeaseExpired
        ? { message: "Task terminated: the robot lost contact and its lease expired", leaseExpired: true }
        : {}),
    };
    return change(state, withReport(state, { ...rest, phase: "ended" }, body, now), publish);
  }
  if (held.phase === "running") return { state, effects: [] };
  const body: ReportBody = {
    state: "running",
    event: "Started",
    message: "Task started",
    startedAt: new Date(event.startedAt).toISOString(),
  };
  const keepsOrder = restartsHere(held) || held.order?.templates?.some(mayChange) === true || held.order?.checks !== undefined;
  const running: HeldTask = { ...(keepsOrder ? held : rest), phase: "running" };
  return change(state, withReport(state, running, body, now), publish);
}

/** A program that was stopped because its checks failed has failed. */
function exitAfterChecks(exited: Exited, failedCheck: string | undefined, { lease }: Pick<HeldTask, "lease">): Exited {
  if (failedCheck === undefined || exited.reason !== "Stopped" || lease?.isFenced === true) return exited;
  return { ...exited, reason: "Error", message: failedCheck };
}

function checked(state: AgentState, event: AgentEvent & { readonly kind: "checked" }, now: number): Step {
  const held = currentTask(state, event);
  if (held?.phase !== "running" || held.failedCheck !== undefined) return { state, effects: [] };
  const { uid, attempt, run, health, message } = event;
  if (event.restart === true) {
    return change(state, { ...held, health, failedCheck: message }, () => [{ kind: "stop", uid, attempt, run }]);
  }
  if (held.health === health) return { state, effects: [] };
  const startedAt = held.report?.startedAt;
  const body: ReportBody = {
    state: "running",
    event: health === "passing" ? "Healthy" : "Unhealthy",
    message: `Task is ${health === "passing" ? "healthy" : "unhealthy"}: ${message}`,
    health,
    ...(startedAt === undefined ? {} : { startedAt }),
  };
  return change(state, withReport(state, { ...held, health }, body, now), publish);
}

/** The task of an event about a program, if it is its current program. */
function currentTask(
  state: AgentState,
  { uid, attempt, run = 0 }: { readonly uid: string; readonly attempt: number; readonly run?: number },
): HeldTask | undefined {
  const held = state.tasks.get(uid);
  const isCurrent = held?.programAttempt === attempt && (held.run ?? 0) === run;
  return isCurrent && (held.phase === "accepted" || held.phase === "running") ? held : undefined;
}

type FilesEvent = AgentEvent & { readonly kind: "downloading" | "rendered" | "templates-changed" };

function filesChanged(state: AgentState, event: FilesEvent, now: number): Step {
  const held = currentTask(state, event);
  if (held === undefined) return { state, effects: [] };
  const { uid, attempt, run } = event;
  switch (event.kind) {
    case "downloading": {
      if (held.phase !== "accepted") return { state, effects: [] };
      const body: ReportBody = { state: "dispatching", event: "Downloading", message: "The robot downloads the artifacts" };
      return change(state, withReport(state, held, body, now), publish);
    }
    case "rendered":
      return change(state, { ...held, rendered: event.digests }, () => []);
    case "templates-changed": {
      const { digests: rendered, restart, signals } = event;
      if (held.phase !== "running") return { state, effects: [] };
      if (restart) {
        return change(state, { ...held, rendered, isReloading: true }, () => [{ kind: "stop", uid, attempt, run }]);
      }
      return change(state, { ...held, rendered }, () =>
        signals.map((signal) => ({ kind: "signal", uid, attempt, run, signal })),
      );
    }
  }
}
