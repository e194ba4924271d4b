import { draft, jsonEquals } from "@keelson/api-machinery";
import { App, type AppStatus, type ChangeTask, type Plan } from "../../api/app.ts";
import { applyControls } from "./app-controls.ts";
import { effectsOf } from "./app-effects.ts";
import type { AppObservation } from "./app-observation.ts";
import { validateApp, planChanges, warningsOf } from "../plan/plan-changes.ts";
import { setAppConditions, setWarningCondition, summarize } from "./app-status.ts";
import type { Decision } from "../effect.ts";
import { hasActivePlan, advancePlan } from "../plan/advance-plan.ts";

/**
 * Decides about an App. Pure. A changed status is written first and alone, so that every action is on record: a controller
 * that crashes in between repeats it.
 */
export function decideApp(observed: AppObservation): Decision {
  const { app, components, plugin, now } = observed;
  if (app.metadata.deletionTimestamp !== undefined) return { effects: [] };
  const status = draft(app.status ?? {}) as AppStatus;
  const generation = app.metadata.generation ?? 0;
  applyControls(app, status, now);
  const applied = new Map([...components].map(([name, component]) => [name, component.spec]));
  const isNew = status.acceptedGeneration !== generation;
  const isMissing = (plan: Plan | undefined): boolean =>
    plan?.outcome === "Succeeded" && !("problem" in plugin) && plugin.components.some(({ name }) => !components.has(name));
  let problem: string | undefined;
  if ("problem" in plugin) problem = plugin.problem;
  else {
    const problems = validateApp(app, plugin, applied);
    if (problems.length > 0 && isNew) problem = problems.map(({ field, message }) => `${field}: ${message}`).join("; ");
    else if (!hasActivePlan(status) && (isNew || isMissing(status.plan))) {
      const after = status.plan?.generation === generation ? lastNumber(status.plan.tasks) : 0;
      const tasks = planChanges(app, plugin, applied, { generation, after });
      status.acceptedGeneration = generation;
      if (tasks.length > 0) {
        status.plan = {
          id: `plan-${generation}-${String(after + 1).padStart(2, "0")}`,
          generation,
          startedAt: new Date(now).toISOString(),
          tasks,
        };
      }
    }
  }
  status.observedGeneration = generation;
  const isWaiting = hasActivePlan(status) && status.acceptedGeneration !== generation;
  if (isWaiting) status.pendingGeneration = generation;
  else delete status.pendingGeneration;
  let dueMs: number | undefined;
  if (status.plan !== undefined && hasActivePlan(status)) {
    const step = advancePlan(
      status.plan,
      components,
      { onFailure: app.spec.changePolicy?.onFailure ?? "stop", isSuperseded: isWaiting },
      now,
    );
    status.plan = step.plan;
    dueMs = step.dueMs;
  }
  summarize(app, components, status, problem);
  setAppConditions(status, generation, problem, now);
  setWarningCondition(status, "problem" in plugin ? [] : warningsOf(app, plugin), now);
  const requeue = dueMs === undefined ? {} : { requeueAfterMs: Math.max(dueMs - now, 10) };
  if (!jsonEquals(status, app.status ?? {}))
    return { effects: [{ kind: "status", type: App, object: app, status }], ...requeue };
  return { effects: effectsOf(observed, status), ...requeue };
}

function lastNumber(tasks: readonly ChangeTask[]): number {
  return Math.max(0, ...tasks.map((task) => Number(task.taskId.split("-")[2] ?? 0)));
}
