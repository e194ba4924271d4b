import { type Condition, type DeepReadonly, draft, setCondition } from "@keelson/api-machinery";
import type { App, AppStatus } from "../../api/app.ts";
import type { Component } from "../../api/component.ts";
import { hasActivePlan } from "../plan/advance-plan.ts";

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
      const message = operation?.phase === "Running" ? operation.message : undefined;
      return { name, ready: component.status !== undefined && readyReplicas >= replicas, ...(message ? { message } : {}) };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const active = status.plan?.tasks.find((task) => ["in_progress", "cancelling", "retry_pending"].includes(task.status));
  const unsuccessful = status.plan?.tasks.find((task) => task.status === "failed" || task.status === "cancelled");
  const progress = status.components.find((component) => component.message !== undefined)?.message;
  const isReady = status.components.length > 0 && status.components.every((component) => component.ready);
  if (hasActivePlan(status)) {
    status.phase = active?.scenario === "provision" ? "Provisioning" : "Updating";
    status.message =
      active === undefined
        ? "the plan is in progress"
        : active.status === "retry_pending"
          ? `${active.taskId} failed (${active.error ?? ""}); retrying at ${active.retryAt ?? ""}`
          : `${active.taskId}: ${active.status === "cancelling" ? "reverting" : active.description}${progress ? `; ${progress}` : ""}`;
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
    status.message = "not all Pods are ready";
  }
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
  const unsynced = status.plan?.tasks.filter((task) => task.status !== "done") ?? [];
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
      status: status.phase === "Running" || status.phase === "Updating",
      reason: status.phase ?? "Pending",
      message: status.message ?? "",
      observedGeneration: generation,
    },
    now,
  );
  status.conditions = draft(conditions) as Condition[];
}
