import {
  type Condition,
  ConfigMap,
  type ConfigMapObject,
  controllerReference,
  type DeepReadonly,
  draft,
  isJsonObject,
  jsonEquals,
  setCondition,
} from "@keelson/api-machinery";
import { App, type AppStatus, type ChangeTask, type Plan } from "../api/app.ts";
import { Component, type ComponentSpec } from "../api/component.ts";
import { accessSecretName, annotations, labels, metadataName } from "../api/names.ts";
import type { Plugin } from "../plugin/plugin.ts";
import { hashOf } from "../plugin/render-group.ts";
import { checkApp, planChanges } from "./app-plan.ts";
import { withPart } from "./desired-components.ts";
import type { Decision, Effect } from "./effect.ts";
import { cancelTasks, type ControlResult, isBusy, retryTasks, stepPlan } from "./task-life.ts";

/** What the App's controller sees. */
export interface AppObservation {
  readonly app: DeepReadonly<App>;
  /** Components of the App by their name within it. */
  readonly components: ReadonlyMap<string, DeepReadonly<Component>>;
  /** The plugin, or why there is none. */
  readonly plugin: Plugin | { readonly problem: string };
  readonly metadata: DeepReadonly<ConfigMapObject> | undefined;
  readonly now: number;
}

/** Name of the Component object of a component. */
export const componentName = (app: string, component: string): string => `${app}-${component}`;

/**
 * What to do about an App. Pure. A changed status is written first and alone, so that whatever is done rests on a record:
 * whoever dies in between does the same again.
 */
export function decideApp(observed: AppObservation): Decision {
  const { app, components, plugin, now } = observed;
  if (app.metadata.deletionTimestamp !== undefined) return { effects: [] };
  const status = draft(app.status ?? {}) as AppStatus;
  const generation = app.metadata.generation ?? 0;
  obeyControls(app, status, now);
  const applied = new Map([...components].map(([name, component]) => [name, component.spec]));
  let conditions: readonly Condition[] = status.conditions ?? [];
  const isNew = status.acceptedGeneration !== generation;
  const isMissing = (plan: Plan | undefined): boolean =>
    plan?.outcome === "Succeeded" && !("problem" in plugin) && plugin.components.some(({ name }) => !components.has(name));
  let problem: string | undefined;
  if ("problem" in plugin) problem = plugin.problem;
  else {
    const problems = checkApp(app, plugin, applied);
    if (problems.length > 0 && isNew) problem = problems.map(({ field, message }) => `${field}: ${message}`).join("; ");
    else if (!isBusy(status) && (isNew || isMissing(status.plan))) {
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
  const isWaiting = isBusy(status) && status.acceptedGeneration !== generation;
  if (isWaiting) status.pendingGeneration = generation;
  else delete status.pendingGeneration;
  let dueMs: number | undefined;
  if (status.plan !== undefined && isBusy(status)) {
    const step = stepPlan(
      status.plan,
      components,
      { onFailure: app.spec.changePolicy?.onFailure ?? "stop", isSuperseded: isWaiting },
      now,
    );
    status.plan = step.plan;
    dueMs = step.dueMs;
  }
  summarize(app, components, status, problem);
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
  const isSynced = problem === undefined && !isWaiting && unsynced.length === 0;
  const failed = unsynced.find((task) => task.status === "failed" || task.status === "cancelled");
  conditions = setCondition(
    conditions,
    {
      type: "Synced",
      status: isSynced,
      reason: isSynced
        ? "Applied"
        : isBusy(status)
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
  const requeue = dueMs === undefined ? {} : { requeueAfterMs: Math.max(dueMs - now, 10) };
  if (!jsonEquals(status, app.status ?? {}))
    return { effects: [{ kind: "status", type: App, object: app, status }], ...requeue };
  return { effects: effectsOf(observed, status), ...requeue };
}

function lastNumber(tasks: readonly ChangeTask[]): number {
  return Math.max(0, ...tasks.map((task) => Number(task.taskId.split("-")[2] ?? 0)));
}

/** Cancels and retries that people wrote into annotations. Each is done once, and its result kept beside the tasks. */
function obeyControls(app: DeepReadonly<App>, status: AppStatus, now: number): void {
  const control = { ...status.control };
  const results: (ControlResult & { action: string })[] = [];
  for (const [action, key] of [
    ["cancel", annotations.cancelControl],
    ["retry", annotations.retryControl],
  ] as const) {
    const text = app.metadata.annotations?.[key];
    if (text === undefined) {
      // Consumed: the same words may come again.
      delete control[action];
      continue;
    }
    const hash = hashOf(text);
    if (control[action] === hash) continue;
    control[action] = hash;
    const request = readControl(text, action === "cancel" ? "cancelTaskIds" : "retryTaskIds");
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
        : retryTasks(plan, request.ids, request.resetDependencies, isCurrent);
    results.push(...outcome.map((each) => ({ action, ...each })));
  }
  if (results.length > 0) control.result = JSON.stringify({ at: new Date(now).toISOString(), results });
  if (Object.keys(control).length > 0) status.control = control;
  else delete status.control;
}

function readControl(text: string, key: string): { ids: readonly string[]; resetDependencies: boolean } | { problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: `it is no JSON: {"${key}": ["task-1-01"]} was expected` };
  }
  const ids = isJsonObject(value) ? value[key] : undefined;
  if (!Array.isArray(ids) || ids.length > 500 || !ids.every((id): id is string => typeof id === "string")) {
    return { problem: `${key} has to be a list of task ids` };
  }
  return { ids, resetDependencies: isJsonObject(value) && value.resetDependencies === true };
}

function summarize(
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
  const bad = status.plan?.tasks.find((task) => task.status === "failed" || task.status === "cancelled");
  const waits = status.components.find((component) => component.message !== undefined)?.message;
  const isReady = status.components.length > 0 && status.components.every((component) => component.ready);
  if (isBusy(status)) {
    status.phase = active?.scenario === "provision" ? "Provisioning" : "Updating";
    status.message =
      active === undefined
        ? "the plan goes on"
        : active.status === "retry_pending"
          ? `${active.taskId} failed (${active.error ?? ""}) and is tried again at ${active.retryAt ?? ""}`
          : `${active.taskId}: ${active.status === "cancelling" ? "is being taken back" : active.description}${waits ? `; ${waits}` : ""}`;
  } else if (problem !== undefined) {
    status.phase = components.size === 0 ? "Failed" : "Degraded";
    status.message = problem;
  } else if (bad !== undefined) {
    status.phase = "Degraded";
    status.message = `${bad.taskId} ${bad.status}: ${bad.error ?? bad.reason ?? ""}`;
  } else if (app.spec.stopped && status.plan?.outcome === "Succeeded") {
    status.phase = "Stopped";
    status.message = "stopped; its volumes are kept";
  } else if (isReady) {
    status.phase = "Running";
    status.message = "all Pods are ready";
  } else {
    status.phase = components.size === 0 ? "Pending" : "Degraded";
    status.message = "not all Pods are ready";
  }
}

/** What follows from a status that is on record. */
function effectsOf({ app, components, plugin, metadata, now }: AppObservation, status: AppStatus): Effect[] {
  const effects: Effect[] = [];
  const { name = "", namespace = "" } = app.metadata;
  if (!("problem" in plugin)) effects.push({ kind: "access-secret", name: accessSecretName(name), object: app });
  for (const task of status.plan?.tasks ?? []) {
    if (task.status !== "in_progress" && task.status !== "cancelling") continue;
    const current = components.get(task.targetComponent);
    const isStopping = task.status === "cancelling" && !task.revert;
    // A cancel that comes before its Component ever heard of the task still goes by way of the Component: one path only.
    const spec = componentSpec(task, current?.spec);
    const wanted: Record<string, string> =
      isStopping && task.token !== undefined ? { [annotations.cancelRequest]: task.token } : {};
    const isThere =
      current !== undefined &&
      jsonEquals(current.spec, spec) &&
      current.metadata.annotations?.[annotations.cancelRequest] === wanted[annotations.cancelRequest];
    if (isThere) continue;
    effects.push({
      kind: "apply",
      type: Component,
      object: {
        apiVersion: "middleware.io/v1alpha1",
        kind: "Component",
        metadata: {
          name: componentName(name, task.targetComponent),
          namespace,
          labels: {
            [labels.app]: name,
            [labels.component]: task.targetComponent,
            [labels.plugin]: app.spec.plugin.name,
            [labels.pluginVersion]: app.spec.plugin.version,
          },
          ...(Object.keys(wanted).length > 0 ? { annotations: wanted } : {}),
          ownerReferences: [controllerReference(app)],
        },
        spec,
      } as unknown as DeepReadonly<Component>,
    });
  }
  const data = { [name]: JSON.stringify(metadataOf(app, components)) };
  if (components.size > 0 && !jsonEquals(metadata?.data, data)) {
    effects.push({
      kind: "apply",
      type: ConfigMap,
      object: {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: {
          name: metadataName(name),
          namespace,
          labels: { [labels.app]: name },
          ownerReferences: [controllerReference(app)],
        },
        data,
      } as DeepReadonly<ConfigMapObject>,
    });
  }
  const mirror = mirrorOf(app, status, now);
  if (Object.keys(mirror).length > 0) effects.push({ kind: "annotate", type: App, object: app, annotations: mirror });
  return effects;
}

function componentSpec(task: ChangeTask, current: DeepReadonly<ComponentSpec> | undefined): ComponentSpec {
  const part = (task.revert ? task.baseSpec : task.desiredSpec) ?? {};
  const base = (current ?? task.desiredSpec) as unknown as DeepReadonly<ComponentSpec>;
  const spec =
    task.scenario === "provision" && !task.revert
      ? (draft(task.desiredSpec) as unknown as ComponentSpec)
      : withPart(base, task.type, part);
  return { ...spec, ...(task.token === undefined ? {} : { operation: { token: task.token, scenario: task.scenario } }) };
}

/** Annotations that are not as they should be. The controls that were done go away here. */
function mirrorOf(app: DeepReadonly<App>, status: AppStatus, _now: number): Record<string, string | null> {
  const is = app.metadata.annotations ?? {};
  const change: Record<string, string | null> = {};
  const want = (key: string, value: string | undefined): void => {
    if (is[key] !== value) change[key] = value ?? null;
  };
  if (status.plan !== undefined) {
    const text = JSON.stringify(
      status.plan.tasks.map((task) => ({
        ...task,
        startedAt: task.startedAt ?? null,
        completedAt: task.completedAt ?? null,
        error: task.error ?? null,
      })),
    );
    if (is[annotations.tasks] !== text) {
      change[annotations.tasks] = text;
      change[annotations.tasksRevision] = String(Number(is[annotations.tasksRevision] ?? 0) + 1 || 1);
    }
  }
  want(annotations.pendingChange, status.pendingGeneration === undefined ? undefined : "true");
  if (status.control?.result !== undefined) want(annotations.controlResult, status.control.result);
  if (status.control?.cancel !== undefined) want(annotations.cancelControl, undefined);
  if (status.control?.retry !== undefined) want(annotations.retryControl, undefined);
  return change;
}

/** What other programs may want to know of an App: its components and what they run. */
function metadataOf(app: DeepReadonly<App>, components: ReadonlyMap<string, DeepReadonly<Component>>): object {
  return {
    name: app.metadata.name,
    namespace: app.metadata.namespace,
    plugin: app.spec.plugin,
    components: Object.fromEntries(
      [...components]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, { spec, status }]) => [
          name,
          {
            runtime: spec.runtime,
            config: spec.config ?? {},
            replicas: status?.replicas ?? 0,
            readyReplicas: status?.readyReplicas ?? 0,
            phase: status?.phase ?? "Pending",
          },
        ]),
    ),
  };
}
