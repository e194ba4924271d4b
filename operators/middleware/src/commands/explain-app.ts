import type { DeepReadonly } from "@keelson/api-machinery";
import type { App, ChangeTask } from "../api/app.ts";
import type { Component } from "../api/component.ts";
import type { Group } from "../api/group.ts";
import { hasActivePlan, isAwaitingApproval } from "../controllers/plan/advance-plan.ts";

/** Something that an App waits for, or that went wrong. */
export interface Explanation {
  /** Kind and name of the object, or the id of the plan or task. */
  readonly subject: string;
  /** Machine-readable: Paused, ApprovalRequired, Running and similar. */
  readonly reason: string;
  readonly message: string;
  /** Command that continues. */
  readonly next?: string;
}

/** What an App waits for, from the App down to its Pods. Pure. Empty if it waits for nothing. */
export function explainApp(
  app: DeepReadonly<App>,
  components: readonly DeepReadonly<Component>[],
  groups: readonly DeepReadonly<Group>[],
): readonly Explanation[] {
  const { metadata, status } = app;
  const name = metadata.name ?? "";
  const flags = metadata.namespace === undefined || metadata.namespace === "default" ? "" : ` -n ${metadata.namespace}`;
  const command = (verb: string, more = ""): string => `keelson app ${verb} ${name}${more}${flags}`;
  if (status?.observedGeneration !== metadata.generation) {
    const message = `the controller has not observed generation ${metadata.generation ?? 0}; is the operator running?`;
    return [{ subject: `App ${name}`, reason: "NotObserved", message, next: "keelson status" }];
  }
  const below = [...components.flatMap(explainComponent), ...groups.flatMap(explainGroup)];
  // The controller no longer plans or controls anything.
  if (metadata.deletionTimestamp !== undefined)
    return [{ subject: `App ${name}`, reason: "Deleting", message: status?.message ?? "" }, ...below];
  const accepted = status?.conditions?.find(({ type }) => type === "Accepted");
  return [
    ...(accepted?.status === "False" ? [{ subject: `App ${name}`, reason: "Invalid", message: accepted.message ?? "" }] : []),
    ...explainPlan(app, command),
    ...below,
  ];
}

type Command = (verb: string, more?: string) => string;

/** Why the tasks of the plan do not advance. */
function explainPlan({ metadata, status }: DeepReadonly<App>, command: Command): readonly Explanation[] {
  const { plan, pausedAt, pendingGeneration, pendingChanges = [] } = status ?? {};
  const found: Explanation[] = [];
  if (pausedAt !== undefined)
    found.push({
      subject: `App ${metadata.name ?? ""}`,
      reason: "Paused",
      message: `changes are paused since ${pausedAt}`,
      next: command("resume"),
    });
  if (plan === undefined) return found;
  if (isAwaitingApproval(plan))
    found.push({
      subject: plan.id,
      reason: "ApprovalRequired",
      message: `${plan.tasks.filter((task) => task.status === "pending").length} tasks wait for approval`,
      next: command("approve", ` ${plan.id}`),
    });
  const isCurrent = plan.finishedAt === undefined || plan.generation === status?.acceptedGeneration;
  if (isCurrent) for (const task of plan.tasks) found.push(...explainTask(task, plan.tasks, command));
  if (pendingGeneration !== undefined && hasActivePlan(status)) {
    const changes = pendingChanges.length === 0 ? "which needs no more tasks" : pendingChanges.join("; ");
    found.push({
      subject: `generation ${pendingGeneration}`,
      reason: "PlanActive",
      message: `waits for ${plan.id} to finish: ${changes}`,
      next: command("cancel"),
    });
  }
  return found;
}

function explainTask(
  task: DeepReadonly<ChangeTask>,
  tasks: readonly DeepReadonly<ChangeTask>[],
  command: Command,
): readonly Explanation[] {
  const { taskId: subject, description } = task;
  const retry = command("retry", ` ${subject}`);
  switch (task.status) {
    case "in_progress":
      return [{ subject, reason: "Running", message: `${description}; deadline ${task.deadlineAt ?? "unknown"}` }];
    case "cancelling":
      return [{ subject, reason: "Cancelling", message: `${task.revert ? "reverting" : "stopping"}: ${description}` }];
    case "retry_pending":
      return [{ subject, reason: "RetryPending", message: `retrying at ${task.retryAt ?? ""}: ${task.error ?? ""}` }];
    case "pending": {
      const earlier = tasks.filter(
        (other) => !["done", "failed", "skipped", "cancelled"].includes(other.status) && other.stage < task.stage,
      );
      if (earlier.length === 0) return [];
      return [{ subject, reason: "EarlierStage", message: `waits for ${earlier.map((each) => each.taskId).join(", ")}` }];
    }
    case "failed":
      return [{ subject, reason: "Failed", message: `${task.reason ?? ""}: ${task.error ?? ""}`, next: retry }];
    case "cancelled":
      return [{ subject, reason: "Cancelled", message: task.error ?? description, next: retry }];
    case "skipped":
      return [{ subject, reason: "Skipped", message: task.reason ?? "", next: retry }];
    case "done":
      return [];
  }
}

function explainComponent({ metadata, status }: DeepReadonly<Component>): readonly Explanation[] {
  const { operation } = status ?? {};
  if (operation?.phase !== "Running") return [];
  const message = operation.message ?? "waiting for its Groups";
  return [{ subject: `Component ${metadata.name ?? ""}`, reason: "Running", message }];
}

function explainGroup({ metadata, status }: DeepReadonly<Group>): readonly Explanation[] {
  const subject = `Group ${metadata.name ?? ""}`;
  const { operation, message, pods = [], replicas = 0, readyReplicas = 0 } = status ?? {};
  const found: Explanation[] = [];
  const progress = operation?.phase === "Running" ? operation.message : message;
  if (progress !== undefined)
    found.push({ subject, reason: operation?.phase === "Running" ? "Running" : "Waiting", message: progress });
  if (readyReplicas < replicas) {
    const late = pods.filter((pod) => pod.ready !== true).map((pod) => `${pod.name} (${pod.role ?? "unknown"})`);
    const names = late.length === 0 ? "" : `: ${late.join(", ")}`;
    found.push({ subject, reason: "PodsNotReady", message: `${readyReplicas} of ${replicas} Pods are ready${names}` });
  }
  return found;
}
