import { type DeepReadonly, draft, jsonEquals } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { App, type AppStatus, type ChangeTask, type Plan } from "../../api/app.ts";
import { annotations } from "../../api/names.ts";
import { applyControls } from "./app-controls.ts";
import { decideDeletion } from "./app-deletion.ts";
import { effectsOf } from "./app-effects.ts";
import type { AppObservation } from "./app-observation.ts";
import { planChanges, warningsOf } from "../plan/plan-changes.ts";
import { validateApp } from "../plan/validate-app.ts";
import { setAppConditions, setWarningCondition, summarize } from "./app-status.ts";
import type { Decision } from "../effect.ts";
import { hasActivePlan, advancePlan, extendDeadlines, isAwaitingApproval } from "../plan/advance-plan.ts";
import { withPart } from "../plan/desired-components.ts";
import { predictTasks } from "../plan/predict-tasks.ts";
import { suppressTasks } from "../plan/suppress-tasks.ts";
import type { ComponentSpec } from "../../api/component.ts";

type Applied = ReadonlyMap<string, DeepReadonly<ComponentSpec>>;

/**
 * Decides about an App. Pure. A changed status is written first and alone, so that every action is on record: a controller
 * that crashes in between repeats it.
 */
export function decideApp(observed: AppObservation): Decision {
  const { app, components, plugin, settings, now } = observed;
  if (app.metadata.deletionTimestamp !== undefined) return decideDeletion(observed);
  const status = draft(app.status ?? {}) as AppStatus;
  const generation = app.metadata.generation ?? 0;
  applyControls(app, status, settings, now);
  applyPause(app, status, now);
  const applied = new Map([...components].map(([name, component]) => [name, component.spec]));
  const problem = planSpec(observed, applied, status);
  status.observedGeneration = generation;
  const isWaiting = hasActivePlan(status) && status.acceptedGeneration !== generation;
  previewPending(observed, applied, status, isWaiting && problem === undefined);
  if (isWaiting) status.pendingGeneration = generation;
  else delete status.pendingGeneration;
  const dueMs = advance(observed, status, isWaiting);
  summarize(app, components, status, problem);
  setAppConditions(status, generation, problem, now);
  setWarningCondition(status, "problem" in plugin ? [] : warningsOf(app, plugin), now);
  const requeue = dueMs === undefined ? {} : { requeueAfterMs: Math.max(dueMs - now, 10) };
  if (!jsonEquals(status, app.status ?? {}))
    return { effects: [{ kind: "status", type: App, object: app, status }], ...requeue };
  return { effects: effectsOf(observed, status), ...requeue };
}

/** Records since when changes are paused. After a pause, running tasks get the time back. Mutates `status`. */
function applyPause(app: AppObservation["app"], status: AppStatus, now: number): void {
  if (app.metadata.annotations?.[annotations.paused] === "true") {
    status.pausedAt ??= formatTime(now);
  } else if (status.pausedAt !== undefined) {
    extendDeadlines(status.plan?.tasks ?? [], now - Date.parse(status.pausedAt));
    delete status.pausedAt;
  }
}

/** Accepts the spec and plans its changes, unless a plan is active. Returns why the spec is not valid. Mutates `status`. */
function planSpec(
  { app, components, groups, plugin, certificateProblems, settings, now }: AppObservation,
  applied: Applied,
  status: AppStatus,
): string | undefined {
  if ("problem" in plugin) return plugin.problem;
  const generation = app.metadata.generation ?? 0;
  const isNew = status.acceptedGeneration !== generation;
  const problems = [...validateApp(app, plugin, applied, groups), ...certificateProblems];
  if (problems.length > 0 && isNew) return problems.map(({ field, message }) => `${field}: ${message}`).join("; ");
  const isMissing = status.plan?.outcome === "Succeeded" && plugin.components.some(({ name }) => !components.has(name));
  const isFree = !hasActivePlan(status) || (isNew && isReplaceable(status));
  if (!isFree || !(isNew || isMissing)) return undefined;
  const previous = status.plan;
  const after = previous?.generation === generation ? lastNumber(previous.tasks) : 0;
  const planned = suppressTasks(planChanges(app, plugin, applied, { generation, after }, settings), previous, formatTime(now));
  status.acceptedGeneration = generation;
  if (previous !== undefined && previous.finishedAt === undefined) supersede(previous, now);
  if (planned.length === 0) return undefined;
  const predictions = predictTasks(planned, plugin, groups);
  const needsApproval =
    app.spec.changePolicy?.approval === "manual" &&
    planned.some(({ scenario, status: state }) => scenario !== "provision" && state === "pending");
  status.plan = {
    id: `plan-${generation}-${String(after + 1).padStart(2, "0")}`,
    generation,
    startedAt: formatTime(now),
    ...(needsApproval ? { approval: "Required" } : {}),
    tasks: planned.map((task, index) => {
      const predicted = predictions[index]?.disruptions;
      return predicted === undefined ? task : { ...task, predicted };
    }),
  };
  return undefined;
}

/** Whether a newer spec replaces the active plan: no task has started, and none will before a user acts. */
function isReplaceable({ plan, pausedAt }: AppStatus): boolean {
  const hasStarted = plan?.tasks.some(({ attempt }) => attempt > 0) ?? false;
  return !hasStarted && (isAwaitingApproval(plan) || pausedAt !== undefined);
}

/** Ends a plan of which nothing has started. */
function supersede(plan: Plan, now: number): void {
  for (const task of plan.tasks) {
    if (task.status !== "pending") continue;
    Object.assign(task, { status: "skipped", reason: "superseded", completedAt: formatTime(now) });
  }
  Object.assign(plan, { finishedAt: formatTime(now), outcome: "Cancelled" });
}

/** Previews the tasks of a spec that waits for the active plan, as if the plan succeeded. Mutates `status`. */
function previewPending({ app, plugin }: AppObservation, applied: Applied, status: AppStatus, isWaiting: boolean): void {
  delete status.pendingChanges;
  if (!isWaiting || "problem" in plugin) return;
  const after = new Map(applied);
  for (const task of status.plan?.tasks ?? []) {
    const current = after.get(task.targetComponent);
    if (["done", "failed", "skipped", "cancelled", "cancelling"].includes(task.status)) continue;
    const desired = task.desiredSpec as unknown as ComponentSpec;
    after.set(task.targetComponent, current === undefined ? desired : withPart(current, task.type, desired));
  }
  const changes = suppressTasks(planChanges(app, plugin, after, { generation: 0, after: 0 }), status.plan, undefined);
  const pending = changes.filter((task) => task.status === "pending");
  status.pendingChanges = pending.map(({ targetComponent, description }) => `${targetComponent}: ${description}`);
}

/** Advances the active plan. Returns its nearest deadline. Mutates `status`. */
function advance(
  { app, components, settings, now }: AppObservation,
  status: AppStatus,
  isSuperseded: boolean,
): number | undefined {
  if (status.plan === undefined || !hasActivePlan(status)) return undefined;
  const onFailure = app.spec.changePolicy?.onFailure ?? "stop";
  const isPaused = status.pausedAt !== undefined;
  const step = advancePlan(
    status.plan,
    components,
    { onFailure, isSuperseded, isPaused, retryBackoffMs: settings.retryBackoffMs },
    now,
  );
  status.plan = step.plan;
  return step.dueMs;
}

function lastNumber(tasks: readonly ChangeTask[]): number {
  return Math.max(0, ...tasks.map((task) => Number(task.taskId.split("-")[2] ?? 0)));
}
