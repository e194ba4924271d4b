import { type DeepReadonly, isJsonObject } from "@keelson/api-machinery";
import type { App, AppStatus } from "../../api/app.ts";
import { annotations } from "../../api/names.ts";
import type { AppSettings } from "../../settings/controller-settings.ts";
import { hashOf } from "../../plugin/render-group.ts";
import { isAwaitingApproval } from "../plan/advance-plan.ts";
import { cancelTasks, type ControlResult, retryTasks } from "../plan/requested-changes.ts";

/** Processes the cancel, retry and approve annotations. Each is processed once and its result recorded. Mutates `status`. */
export function applyControls(app: DeepReadonly<App>, status: AppStatus, settings: AppSettings, now: number): void {
  const control = { ...status.control };
  const results: (ControlResult & { action: string })[] = [];
  for (const [action, key] of [
    ["cancel", annotations.cancelControl],
    ["retry", annotations.retryControl],
    ["approve", annotations.approve],
  ] as const) {
    const text = app.metadata.annotations?.[key];
    if (text === undefined) {
      // Removed after processing, so the same request may be repeated.
      delete control[action];
      continue;
    }
    const hash = hashOf(text);
    if (control[action] === hash) continue;
    control[action] = hash;
    if (action === "approve") {
      results.push({ action, taskId: text, result: approve(app, status, text) });
      continue;
    }
    const refusal = refusalOf(action, settings);
    if (refusal !== undefined) {
      results.push({ action, taskId: "", result: refusal });
      continue;
    }
    const request = parseControl(text, action === "cancel" ? "cancelTaskIds" : "retryTaskIds");
    if ("problem" in request) {
      results.push({ action, taskId: "", result: `refused: ${request.problem}` });
      continue;
    }
    const isCurrent =
      status.plan?.generation === app.metadata.generation && status.acceptedGeneration === app.metadata.generation;
    const plan = status.plan ?? { id: "", generation: 0, startedAt: "", tasks: [] };
    const outcome =
      action === "cancel"
        ? cancelTasks(plan.tasks, request.ids, now)
        : retryTasks(plan, request.ids, request.resetDependencies, isCurrent, app.spec.changePolicy?.approval === "manual");
    results.push(...outcome.map((each) => ({ action, ...each })));
  }
  if (results.length > 0) control.result = JSON.stringify({ at: new Date(now).toISOString(), results });
  if (Object.keys(control).length > 0) status.control = control;
  else delete status.control;
}

/** Why the operator's settings do not allow a request. */
function refusalOf(action: "cancel" | "retry", settings: AppSettings): string | undefined {
  if (action === "cancel") return settings.isManualCancelEnabled ? undefined : "refused: enableManualCancel is false";
  return settings.isManualRetryEnabled ? undefined : "refused: enableManualRetry is false";
}

/** Approves the plan with an id. Mutates `status`. */
function approve({ metadata }: DeepReadonly<App>, { plan, acceptedGeneration }: AppStatus, id: string): string {
  if (plan?.id !== id) return `refused: the current plan is ${plan?.id ?? "none"}`;
  if (!isAwaitingApproval(plan)) return "refused: the plan does not wait for approval";
  if (acceptedGeneration !== metadata.generation) return "refused: the spec has changed since";
  plan.approval = "Approved";
  return "approved";
}

function parseControl(text: string, key: string): { ids: readonly string[]; resetDependencies: boolean } | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: `must be JSON such as {"${key}": ["task-1-01"]}` };
  }
  const ids = isJsonObject(value) ? value[key] : undefined;
  if (!Array.isArray(ids) || ids.length > 500 || !ids.every((id): id is string => typeof id === "string")) {
    return { problem: `${key}: must be a list of task ids` };
  }
  return { ids, resetDependencies: isJsonObject(value) && value.resetDependencies === true };
}
