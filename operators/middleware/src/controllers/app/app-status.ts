import { type Condition, type DeepReadonly, draft, setCondition } from "@keelson/api-machinery";
import type { App, AppStatus, ChangeTask } from "../../api/app.ts";
import type { Component } from "../../api/component.ts";
import { hasActivePlan, isAwaitingApproval } from "../plan/advance-plan.ts";

/** Sets the phase, the message and the state of the components. Mutates `status`. */
export function summarize(
  app: DeepReadonly<App>,
  components: ReadonlyMap<string, DeepReadonly<Component>>,
  status: AppStatus,
  problem: string | undefined,
): void {
  status.components = [...components]
    .map(([name, component]) => {
      const { replicas = 0, readyReplicas = 0, operation } = component.status ?? {};
      const message = operation?.phase === "Running" ? operation.message : component.status?.message;
      // While an operation restarts Pods one by one, the others serve.
      const required = operation?.phase === "Running" ? Math.max(replicas - 1, 1) : replicas;
      const ready = component.status !== undefined && replicas > 0 && readyReplicas >= required;
      return { name, ready, ...(message ? { message } : {}) };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const versions = [...new Set([...components.values()].flatMap((component) => component.status?.version ?? []))];
  if (versions.length > 0) status.version = versions.join(", ");
  const active = status.plan?.tasks.find((task) => ["in_progress", "cancelling", "retry_pending"].includes(task.status));
  const unsuccessful = currentTasks(status).find((task) => task.status === "failed" || task.status === "cancelled");
  const progress = status.components.find((component) => component.message !== undefined)?.message;
  const isReady = status.components.length > 0 && status.components.every((component) => component.ready);
  const held = heldBy(status);
  if (hasActivePlan(status) && held !== undefined && active === undefined) {
    status.phase = components.size === 0 ? "Pending" : isReady ? "Running" : "Degraded";
    status.message = held;
  } else if (hasActivePlan(status)) {
    status.phase = active?.scenario === "provision" ? "Provisioning" : "Updating";
    status.message =
      active === undefined
        ? "the plan is in progress"
        : active.status === "retry_pending"
          ? `${active.taskId} failed (${active.error ?? ""}); retrying at ${active.retryAt ?? ""}`
          : `${held === undefined ? "" : `${held}; `}${active.taskId}: ${active.status === "cancelling" ? "reverting" : active.description}${progress ? `; ${progress}` : ""}`;
  } else if (problem !== undefined) {
    status.phase = components.size === 0 ? "Failed" : "Degraded";
    status.message = problem;
  } else if (unsuccessful !== undefined) {
    status.phase = "Degraded";
    status.message = `${unsuccessful.taskId} ${unsuccessful.status}: ${unsuccessful.error ?? unsuccessful.reason ?? ""}`;
  } else if (app.spec.stopped && status.plan?.outcome === "Succeeded") {
    status.phase = "Stopped";
    status.message = "stopped; volumes are kept";
  } else if (isReady) {
    status.phase = "Running";
    status.message = "all Pods are ready";
  } else {
    status.phase = components.size === 0 ? "Pending" : "Degraded";
    status.message = `not all Pods are ready${progress ? `; ${progress}` : ""}`;
  }
}

/** Why no further task starts, if a user has to act. */
function heldBy({ plan, pausedAt }: AppStatus): string | undefined {
  if (isAwaitingApproval(plan)) return `${plan?.id ?? ""} waits for approval`;
  return pausedAt === undefined ? undefined : "paused";
}

/** Tasks of the plan for the accepted spec. A plan for an earlier spec is history: the accepted one needed no changes. */
export function currentTasks({ plan, acceptedGeneration }: DeepReadonly<AppStatus>): readonly DeepReadonly<ChangeTask>[] {
  return plan === undefined || (plan.finishedAt !== undefined && plan.generation !== acceptedGeneration) ? [] : plan.tasks;
}

/** Whether all Pods are ready, or enough of them while a plan is active. */
function isServing({ phase, components = [] }: AppStatus): boolean {
  return (
    (phase === "Running" || phase === "Updating" || phase === "Degraded") &&
    components.length > 0 &&
    components.every(({ ready }) => ready)
  );
}

/** Sets the conditions Accepted, Synced and Ready from the rest of the status. Mutates `status`. */
export function setAppConditions(status: AppStatus, generation: number, problem: string | undefined, now: number): void {
  let conditions: readonly Condition[] = status.conditions ?? [];
  conditions = setCondition(
    conditions,
    {
      type: "Accepted",
      status: problem === undefined,
      reason: problem === undefined ? "Accepted" : "Invalid",
      message: problem ?? "",
      observedGeneration: generation,
    },
    now,
  );
  const unsynced = currentTasks(status).filter((task) => task.status !== "done");
  const isSynced = problem === undefined && status.pendingGeneration === undefined && unsynced.length === 0;
  const failed = unsynced.find((task) => task.status === "failed" || task.status === "cancelled");
  conditions = setCondition(
    conditions,
    {
      type: "Synced",
      status: isSynced,
      reason: isSynced
        ? "Applied"
        : hasActivePlan(status)
          ? "Updating"
          : failed?.status === "cancelled"
            ? "TaskCancelled"
            : failed
              ? "TaskFailed"
              : "NotAccepted",
      message: failed?.error ?? "",
      observedGeneration: generation,
    },
    now,
  );
  conditions = setCondition(
    conditions,
    {
      type: "Ready",
      // Whether the programs serve, not whether the last change succeeded: see Synced.
      status: isServing(status),
      reason: isServing(status) && status.phase === "Degraded" ? "PodsReady" : (status.phase ?? "Pending"),
      message: status.message ?? "",
      observedGeneration: generation,
    },
    now,
  );
  status.conditions = draft(conditions) as Condition[];
}

/** Sets the condition Warning while the plugin warns about the parameters, for example that data is not persisted. Mutates `status`. */
export function setWarningCondition(status: AppStatus, warnings: readonly string[], now: number): void {
  const known = status.conditions?.some(({ type }) => type === "Warning") ?? false;
  if (warnings.length === 0 && !known) return;
  const condition = {
    type: "Warning",
    status: warnings.length > 0,
    reason: warnings.length > 0 ? "RiskyParameters" : "NoWarnings",
    message: warnings.join("; "),
  };
  status.conditions = draft(setCondition(status.conditions, condition, now)) as Condition[];
}
