import type { Exited } from "@keelson/execution";
import type { StatusMessage } from "../protocol/messages.ts";
import type { TaskOrder } from "./task-order.ts";
import { reportOfExit } from "./task-reports.ts";
import type { LogTails, ReportBody } from "./task-reports.ts";

/**
 * A task on this robot:
 *
 *     accepted --> running --> ended --\
 *         \-----------\----------\------> deleting --> gone
 *
 * A task that is `gone` is kept for a while, so that a late or duplicate create does not run it again. Records on disk contain these
 * phases.
 */
export interface HeldTask {
  readonly uid: string;
  readonly attempt: number;
  readonly phase: "accepted" | "running" | "ended" | "deleting" | "gone";
  /** Sequence number of the last report of this attempt. */
  readonly seq: number;
  /** The program to run, until it runs. */
  readonly order?: TaskOrder;
  /** The last report, and whether the server has acknowledged it. */
  readonly report?: StatusMessage;
  readonly isAcknowledged: boolean;
  /** Heartbeats since the last report. */
  readonly ticks: number;
  /** Attempt whose program and files are on this robot. */
  readonly programAttempt?: number;
  /** Time of the last change by the wall clock. The oldest records are dropped first; clock jumps only affect that order. */
  readonly changedAt: number;
}

/** The agent's state. */
export interface AgentState {
  readonly robotId: string;
  readonly tasks: ReadonlyMap<string, HeldTask>;
}

/** Input of {@link step}. */
export type AgentEvent =
  | { readonly kind: "create"; readonly uid: string; readonly attempt: number; readonly order: TaskOrder }
  | { readonly kind: "create"; readonly uid: string; readonly attempt: number; readonly problem: string }
  | { readonly kind: "delete"; readonly uid: string; readonly attempt: number }
  | { readonly kind: "started"; readonly uid: string; readonly attempt: number; readonly startedAt: number }
  | {
      readonly kind: "exited";
      readonly uid: string;
      readonly attempt: number;
      readonly exited: Exited;
      readonly logs: LogTails;
      /** Another attempt would fail in the same way. */
      readonly isPermanent?: boolean;
    }
  | { readonly kind: "removed"; readonly uid: string }
  | { readonly kind: "ack"; readonly uid: string; readonly attempt: number; readonly seq: number }
  | { readonly kind: "connected" }
  | { readonly kind: "tick" };

/** Output of {@link step}. The effects on one task run in order, across steps. */
export type AgentEffect =
  /** Write the record to disk. Later effects of the same step wait for it. */
  | { readonly kind: "save"; readonly uid: string; readonly task: HeldTask }
  /** Drop the record. */
  | { readonly kind: "forget"; readonly uid: string }
  /** Start the program; continue with `started` or `exited`. */
  | { readonly kind: "start"; readonly uid: string; readonly attempt: number; readonly order: TaskOrder }
  /** Stop an attempt's program and remove it with its logs. */
  | { readonly kind: "discard"; readonly uid: string; readonly attempt: number }
  /** Remove the task's folder; continue with `removed` if `answer` is set. */
  | { readonly kind: "clear"; readonly uid: string; readonly answer: boolean }
  | { readonly kind: "publish"; readonly uid: string; readonly report: StatusMessage };

/** Result of {@link step}. */
export interface Step {
  readonly state: AgentState;
  readonly effects: readonly AgentEffect[];
}

/** Maximum number of ended tasks whose files and logs are kept. */
export const maxFinishedTasks = 50;

/** Maximum number of records. Beyond it, the oldest records of tasks that have ended or are gone are dropped. */
export const maxRecords = 1000;

const isPowerOfTwo = (n: number): boolean => n > 0 && (n & (n - 1)) === 0;

/**
 * The agent's decisions, as a pure function.
 *
 * **Guarantees**: an attempt starts at most once. A terminal report is an attempt's last, except for `deleted`. Sequence numbers of
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
    case "removed":
      return removed(state, event.uid, now);
    case "ack": {
      const task = state.tasks.get(event.uid);
      if (task === undefined || task.isAcknowledged) return { state, effects: [] };
      if (task.attempt !== event.attempt || task.seq !== event.seq) return { state, effects: [] };
      return change(state, { ...task, isAcknowledged: true }, () => []);
    }
  }
}

const publish = (task: HeldTask): readonly AgentEffect[] =>
  task.report === undefined ? [] : [{ kind: "publish", uid: task.uid, report: task.report }];

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

function change(state: AgentState, task: HeldTask, then: (task: HeldTask) => readonly AgentEffect[]): Step {
  const tasks = new Map(state.tasks).set(task.uid, task);
  return prune({ ...state, tasks }, [{ kind: "save", uid: task.uid, task }, ...then(task)]);
}

/** The task with a new report. */
function withReport(state: AgentState, task: HeldTask, body: ReportBody, now: number): HeldTask {
  const seq = task.seq + 1;
  const report: StatusMessage = {
    taskUid: task.uid,
    robotName: state.robotId,
    ...body,
    updatedAt: new Date(now).toISOString(),
    attempt: task.attempt,
    seq,
  };
  return { ...task, seq, report, isAcknowledged: false, ticks: 0, changedAt: now };
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
  const leftover = held?.programAttempt;
  const discard: readonly AgentEffect[] = leftover === undefined ? [] : [{ kind: "discard", uid, attempt: leftover }];
  const base = { uid, attempt, seq: 0, isAcknowledged: true, ticks: 0, changedAt: now };
  if ("problem" in event) {
    const body: ReportBody = {
      state: "failed",
      event: "StartFailed",
      message: `Task cannot run on this robot: ${event.problem}`,
      permanent: true,
    };
    return change(state, withReport(state, { ...base, phase: "ended" }, body, now), (task) => [...discard, ...publish(task)]);
  }
  const accepted: HeldTask = { ...base, phase: "accepted", order: event.order, programAttempt: attempt };
  return change(state, accepted, () => [...discard, { kind: "start", uid, attempt, order: event.order }]);
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
    return change(state, withReport(state, unknown, deletedBody, now), publish);
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
  return change(state, deleting, (task) => [
    ...(task.programAttempt === undefined ? [] : [{ kind: "discard" as const, uid, attempt: task.programAttempt }]),
    { kind: "clear", uid, answer: true },
  ]);
}

const deletedBody: ReportBody = { state: "deleted", event: "Deleted", message: "The robot has removed the task" };

function removed(state: AgentState, uid: string, now: number): Step {
  const held = state.tasks.get(uid);
  if (held?.phase !== "deleting") return { state, effects: [] };
  const { programAttempt: _, ...rest } = held;
  return change(state, withReport(state, { ...rest, phase: "gone" }, deletedBody, now), publish);
}

function progress(state: AgentState, event: AgentEvent & { readonly kind: "started" | "exited" }, now: number): Step {
  const held = state.tasks.get(event.uid);
  const isCurrent = held?.attempt === event.attempt;
  if (held === undefined || !isCurrent || (held.phase !== "accepted" && held.phase !== "running"))
    return { state, effects: [] };
  const { order: _, ...rest } = held;
  if (event.kind === "exited") {
    const body = { ...reportOfExit(event.exited, event.logs), ...(event.isPermanent ? { permanent: true } : {}) };
    return change(state, withReport(state, { ...rest, phase: "ended" }, body, now), publish);
  }
  if (held.phase === "running") return { state, effects: [] };
  const body: ReportBody = {
    state: "running",
    event: "Started",
    message: "Task started",
    startedAt: new Date(event.startedAt).toISOString(),
  };
  return change(state, withReport(state, { ...rest, phase: "running" }, body, now), publish);
}

/** Bounds disk and memory use: drops the files of the oldest ended tasks, then the oldest records. */
function prune(state: AgentState, effects: readonly AgentEffect[]): Step {
  const byAge = (a: HeldTask, b: HeldTask): number => a.changedAt - b.changedAt;
  const finished = [...state.tasks.values()]
    .filter((task) => task.phase === "ended" && task.programAttempt !== undefined)
    .sort(byAge);
  const tasks = new Map(state.tasks);
  const more: AgentEffect[] = [];
  for (const task of finished.slice(0, Math.max(finished.length - maxFinishedTasks, 0))) {
    const { programAttempt, ...rest } = task;
    tasks.set(task.uid, rest);
    more.push({ kind: "save", uid: task.uid, task: rest });
    if (programAttempt !== undefined) more.push({ kind: "discard", uid: task.uid, attempt: programAttempt });
    more.push({ kind: "clear", uid: task.uid, answer: false });
  }
  if (tasks.size > maxRecords) {
    const rank = (task: HeldTask): number => (task.phase === "gone" ? 0 : 1) + (task.isAcknowledged ? 0 : 2);
    const droppable = [...tasks.values()].filter((task) => task.phase === "gone" || task.phase === "ended");
    droppable.sort((a, b) => rank(a) - rank(b) || byAge(a, b));
    for (const task of droppable.slice(0, tasks.size - maxRecords)) {
      tasks.delete(task.uid);
      if (task.programAttempt !== undefined) more.push({ kind: "discard", uid: task.uid, attempt: task.programAttempt });
      more.push({ kind: "clear", uid: task.uid, answer: false }, { kind: "forget", uid: task.uid });
    }
  }
  return { state: more.length === 0 ? state : { ...state, tasks }, effects: [...effects, ...more] };
}
