import type { Exited } from "@keelson/execution";
import type { LeasedTask, StatusMessage } from "../protocol/messages.ts";
import type { Health } from "./checks/check-state.ts";
import type { TaskOrder } from "./tasks/task-order.ts";
import type { LogTails, ReportBody } from "./tasks/task-reports.ts";

/**
 * A task on this robot:
 *
 *     accepted --> running --> ended --\
 *      ^  \          | \----------\-----> deleting --> gone
 *      |   \---------|------------------/    ^
 *      \-- waiting <-/ ---------------------/
 *
 * A service that ended is `waiting` until this robot restarts it.
 * A task that is `gone` is kept for a while, so that a late or duplicate create does not run it again. Records on disk contain these
 * phases.
 */
export interface HeldTask {
  readonly uid: string;
  readonly attempt: number;
  readonly phase: "accepted" | "running" | "waiting" | "ended" | "deleting" | "gone";
  /** Sequence number of the last report of this attempt. */
  readonly seq: number;
  /** The program to run, until it runs, or until it ends if this robot restarts it. */
  readonly order?: TaskOrder;
  /** The last report, and whether the server has acknowledged it. */
  readonly report?: StatusMessage;
  readonly isAcknowledged: boolean;
  /** Heartbeats since the last report. */
  readonly ticks: number;
  /** Attempt whose program and files are on this robot. It is an earlier one if the current attempt adopted it. */
  readonly programAttempt?: number;
  /** Number of the program within its attempt, from 0. Default 0. */
  readonly run?: number;
  /** Restarts of this attempt so far. */
  readonly restarts?: LocalRestarts;
  /** Set if the program may run only while this robot holds a lease. */
  readonly lease?: TaskLease;
  /** Set once the files of this attempt are in the task's directory: the digest of each template's content. */
  readonly rendered?: readonly string[];
  /** Health of the running program, as it was last reported. */
  readonly health?: Health;
  /** Set while the program is being stopped because its health checks failed: the check that did. */
  readonly failedCheck?: string;
  /** Set while the program is being stopped because a template changed. It then starts again. */
  readonly isReloading?: boolean;
  /** Time of the last change by the wall clock. The oldest records are dropped first; clock jumps only affect that order. */
  readonly changedAt: number;
}

/** Restarts of an attempt by this robot. Times are those of the wall clock. */
export interface LocalRestarts {
  readonly windowStartMs: number;
  readonly restartsInWindow: number;
  /** Time of the next restart, and when it was planned, while the task is `waiting`. */
  readonly dueMs: number;
  readonly plannedMs: number;
}

/** Lease of an attempt. Times are those of the robot's boot clock, in milliseconds. */
export interface TaskLease {
  readonly durationMs: number;
  /** From SIGTERM to SIGKILL when the lease expires. */
  readonly graceMs: number;
  /** Boot ID and end of the lease. Absent until it is granted for the first time. */
  readonly held?: { readonly bootId: string; readonly untilMs: number };
  /** Set once the program is being stopped because the lease expires. */
  readonly isFenced?: boolean;
}

/** The agent's state. */
export interface AgentState {
  readonly robotId: string;
  /** Boot ID of this computer. Leases of an earlier boot are not valid. */
  readonly bootId: string;
  readonly tasks: ReadonlyMap<string, HeldTask>;
}

/** Input of {@link step}. */
export type AgentEvent =
  | {
      readonly kind: "create";
      readonly uid: string;
      readonly attempt: number;
      readonly order: TaskOrder;
      /** Earlier attempt whose program continues as this one, if it is on this robot. */
      readonly adopts?: number;
    }
  | { readonly kind: "create"; readonly uid: string; readonly attempt: number; readonly problem: string }
  | { readonly kind: "delete"; readonly uid: string; readonly attempt: number }
  | {
      readonly kind: "started";
      readonly uid: string;
      readonly attempt: number;
      /** Default 0. */
      readonly run?: number;
      readonly startedAt: number;
    }
  | {
      readonly kind: "exited";
      readonly uid: string;
      readonly attempt: number;
      /** Default 0. */
      readonly run?: number;
      readonly exited: Exited;
      readonly logs: LogTails;
      /** Another attempt would fail in the same way. */
      readonly isPermanent?: boolean;
      /** The program did not start because an artifact could not be fetched. */
      readonly isDownload?: boolean;
    }
  /** The artifacts of a task are being downloaded. */
  | { readonly kind: "downloading"; readonly uid: string; readonly attempt: number; readonly run: number }
  /** The files of a task are in its directory. */
  | {
      readonly kind: "rendered";
      readonly uid: string;
      readonly attempt: number;
      readonly run: number;
      readonly digests: readonly string[];
    }
  /** Templates of a running task have changed and were written. */
  | {
      readonly kind: "templates-changed";
      readonly uid: string;
      readonly attempt: number;
      readonly run: number;
      readonly digests: readonly string[];
      /** Whether the program is to be restarted. */
      readonly restart: boolean;
      /** Signals that the program gets, unless it is restarted. */
      readonly signals: readonly string[];
    }
  /** The health of a program was seen, or its checks have failed so often that it is restarted. */
  | {
      readonly kind: "checked";
      readonly uid: string;
      readonly attempt: number;
      readonly run: number;
      readonly health: Health;
      readonly message: string;
      readonly restart?: boolean;
    }
  | { readonly kind: "removed"; readonly uid: string }
  | { readonly kind: "ack"; readonly uid: string; readonly attempt: number; readonly seq: number }
  /** The server answered a request for leases that was sent at `requestedAtMs`. Times are those of the boot clock. */
  | {
      readonly kind: "lease-answer";
      readonly granted: readonly LeasedTask[];
      readonly refused: readonly LeasedTask[];
      readonly requestedAtMs: number;
      readonly bootMs: number;
    }
  /** Time has passed. */
  | { readonly kind: "lease-check"; readonly bootMs: number }
  /** A restart may be due. */
  | { readonly kind: "restart-check" }
  | { readonly kind: "connected" }
  | { readonly kind: "tick" };

/** Output of {@link step}. The effects on one task run in order, across steps. */
export type AgentEffect =
  /** Write the record to disk. Later effects of the same step wait for it. */
  | { readonly kind: "save"; readonly uid: string; readonly task: HeldTask }
  /** Drop the record. */
  | { readonly kind: "forget"; readonly uid: string }
  /** Start the program; continue with `started` or `exited`. */
  | { readonly kind: "start"; readonly uid: string; readonly attempt: number; readonly run?: number; readonly order: TaskOrder }
  /** Ask the server for leases now. */
  | { readonly kind: "request-lease"; readonly uid: string }
  /** Stop an attempt's program; continue with `exited`. `graceMs` defaults to that of the program. */
  | { readonly kind: "stop"; readonly uid: string; readonly attempt: number; readonly run?: number; readonly graceMs?: number }
  /** Send a signal to an attempt's program. */
  | { readonly kind: "signal"; readonly uid: string; readonly attempt: number; readonly run?: number; readonly signal: string }
  /** Stop an attempt's program and remove it with its logs. */
  | { readonly kind: "discard"; readonly uid: string; readonly attempt: number; readonly run?: number }
  /** Remove the task's directory; continue with `removed` if `answer` is set. */
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

/** The effects that publish a task's last report. */
export const publish = (task: HeldTask): readonly AgentEffect[] =>
  task.report === undefined ? [] : [{ kind: "publish", uid: task.uid, report: task.report }];

/** Replaces a task and writes its record, then carries out `then`. */
export function change(state: AgentState, task: HeldTask, then: (task: HeldTask) => readonly AgentEffect[]): Step {
  const tasks = new Map(state.tasks).set(task.uid, task);
  return prune({ ...state, tasks }, [{ kind: "save", uid: task.uid, task }, ...then(task)]);
}

/** The task with a new report. */
export function withReport(state: AgentState, task: HeldTask, body: ReportBody, now: number): HeldTask {
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

/** The effects that stop and remove a task's program, if there is one. */
export function discard({ uid, programAttempt, run }: HeldTask): readonly AgentEffect[] {
  if (programAttempt === undefined) return [];
  return [{ kind: "discard", uid, attempt: programAttempt, ...(run === undefined ? {} : { run }) }];
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
    const { programAttempt: _, ...rest } = task;
    tasks.set(task.uid, rest);
    more.push({ kind: "save", uid: task.uid, task: rest });
    more.push(...discard(task));
    more.push({ kind: "clear", uid: task.uid, answer: false });
  }
  if (tasks.size > maxRecords) {
    const rank = (task: HeldTask): number => (task.phase === "gone" ? 0 : 1) + (task.isAcknowledged ? 0 : 2);
    const droppable = [...tasks.values()].filter((task) => task.phase === "gone" || task.phase === "ended");
    droppable.sort((a, b) => rank(a) - rank(b) || byAge(a, b));
    for (const task of droppable.slice(0, tasks.size - maxRecords)) {
      tasks.delete(task.uid);
      more.push(...discard(task));
      more.push({ kind: "clear", uid: task.uid, answer: false }, { kind: "forget", uid: task.uid });
    }
  }
  return { state: more.length === 0 ? state : { ...state, tasks }, effects: [...effects, ...more] };
}

/** Whether a run of an attempt waits to be started: it was accepted and not stopped in the meantime. */
export function isWaitingToStart(task: HeldTask | undefined, attempt: number, run: number): boolean {
  const isCurrent = task?.programAttempt === attempt && (task.run ?? 0) === run;
  return isCurrent && task.phase === "accepted" && task.lease?.isFenced !== true;
}
