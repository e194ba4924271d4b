import type { Exited } from "@keelson/execution";
import { decideRestart } from "../work/restart-policy.ts";
import {
  type AgentEffect,
  type AgentEvent,
  type AgentState,
  change,
  discard,
  type HeldTask,
  type LocalRestarts,
  type Step,
} from "./held-task.ts";
import { withoutGrant } from "./leases/task-lease.ts";
import { reportOfExit, type ReportBody } from "./tasks/task-reports.ts";

/** What follows the end of a program that this robot may restart. */
export type RestartPlan =
  | { readonly kind: "restart"; readonly task: HeldTask; readonly body: ReportBody }
  /** The restart policy is used up. */
  | { readonly kind: "fail"; readonly message: string };

/** Whether this robot restarts a task's program, with or without a network. */
export function restartsHere({ order }: HeldTask): boolean {
  return order?.restart !== undefined;
}

/** Decides about the end of a program. Undefined if the end is reported as it is: the server decides what follows. */
export function planRestart(
  held: HeldTask,
  { exited, logs, isPermanent }: AgentEvent & { readonly kind: "exited" },
  now: number,
): RestartPlan | undefined {
  const reload = planReload(held, exited.reason, now);
  if (reload !== undefined) return reload;
  const restart = held.order?.restart;
  // A program that the agent stopped, for its lease or with itself, does not use up the policy.
  if (restart === undefined || isPermanent === true || exited.reason === "Stopped") return undefined;
  const { restarts } = held;
  const past = { windowStartMs: restarts?.windowStartMs, restartsInWindow: restarts?.restartsInWindow ?? 0 };
  const decision = decideRestart(restart.policy, past, now);
  const { message, exitCode } = reportOfExit(exited, logs);
  if (decision.kind === "fail") return { kind: "fail", message: `${message} (${decision.why})` };
  const { atMs, windowStartMs, restartsInWindow } = decision;
  const run = (held.run ?? 0) + 1;
  return {
    kind: "restart",
    task: { ...held, phase: "waiting", restarts: { windowStartMs, restartsInWindow, dueMs: atMs, plannedMs: now } },
    body: {
      state: "running",
      event: "Restarting",
      message: `${message}; restarts on the robot at ${new Date(atMs).toISOString()}`,
      restartCount: restart.count + run,
      ...(exitCode === undefined ? {} : { exitCode }),
    },
  };
}

/** A program that was stopped because a template changed starts again, whatever the restart policy. */
function planReload(held: HeldTask, reason: Exited["reason"], now: number): RestartPlan | undefined {
  const isStopped = reason === "Stopped" || reason === "Error";
  if (held.isReloading !== true || held.order === undefined || held.lease?.isFenced === true || !isStopped) return undefined;
  const { isReloading: _, ...rest } = held;
  const { windowStartMs = now, restartsInWindow = 0 } = held.restarts ?? {};
  return {
    kind: "restart",
    task: { ...rest, phase: "waiting", restarts: { windowStartMs, restartsInWindow, dueMs: now, plannedMs: now } },
    body: { state: "running", event: "Restarting", message: "Task restarts because a template changed" },
  };
}

/** Starts the programs whose restart is due. */
export function restartDue(state: AgentState, now: number): Step {
  let next = state;
  const effects: AgentEffect[] = [];
  for (const task of state.tasks.values()) {
    const { order, uid, programAttempt = task.attempt } = task;
    if (task.phase !== "waiting" || order === undefined || restartDelayMs(task.restarts, now) > 0) continue;
    const run = (task.run ?? 0) + 1;
    const isLeased = task.lease !== undefined;
    const accepted: HeldTask = { ...withoutGrant(task), phase: "accepted", run };
    const step = change(next, accepted, () => [
      ...discard(task),
      isLeased ? { kind: "request-lease", uid } : { kind: "start", uid, attempt: programAttempt, run, order },
    ]);
    next = step.state;
    effects.push(...step.effects);
  }
  return { state: next, effects };
}

/** Time until the next restart of a task; undefined if none is planned. */
export function nextRestartMs({ tasks }: AgentState, now: number): number | undefined {
  let nextMs: number | undefined;
  for (const { phase, restarts } of tasks.values()) {
    if (phase === "waiting") nextMs = Math.min(nextMs ?? Number.POSITIVE_INFINITY, restartDelayMs(restarts, now));
  }
  return nextMs;
}

/** A clock that was set back does not lengthen the delay. */
function restartDelayMs(restarts: LocalRestarts | undefined, now: number): number {
  if (restarts === undefined || now < restarts.plannedMs) return 0;
  return Math.max(restarts.dueMs - now, 0);
}
