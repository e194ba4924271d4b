import { controllerReference, type DeepReadonly, draft, hasFinalizer, jsonEquals } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import { App, type AppStatus, type ChangeTask } from "../../api/app.ts";
import { Component, type ComponentSpec } from "../../api/component.ts";
import { accessSecretName, annotations, appFinalizer, labels, metadataName } from "../../api/names.ts";
import { scheduleEffects } from "./app-backup.ts";
import type { AppObservation } from "./app-observation.ts";
import { withPart } from "../plan/desired-components.ts";
import type { Effect } from "../effect.ts";

/** Name of the Component object of a component. */
const componentName = (app: string, component: string): string => `${app}-${component}`;

/** The effects of a recorded status. */
export function effectsOf(observed: AppObservation, status: AppStatus): Effect[] {
  const { app, components, plugin, backupSchedule } = observed;
  // Added before the first object is created, so that no Pod is left without it.
  if (!hasFinalizer(app, appFinalizer)) return [{ kind: "add-finalizer", type: App, object: app, finalizer: appFinalizer }];
  const effects: Effect[] = [];
  const { name = "", namespace = "" } = app.metadata;
  if (!("problem" in plugin)) effects.push({ kind: "access-secret", name: accessSecretName(name), object: app });
  for (const task of status.plan?.tasks ?? []) {
    if (task.status !== "in_progress" && task.status !== "cancelling") continue;
    const current = components.get(task.targetComponent);
    const isStopping = task.status === "cancelling" && !task.revert;
    // A cancel goes through the Component even if the Component has not seen the task yet, so that there is only one path.
    const spec = componentSpec(task, current?.spec);
    const wanted = requestsOf(task, isStopping, status.pausedAt !== undefined);
    const isUpToDate =
      current !== undefined &&
      jsonEquals(current.spec, spec) &&
      [annotations.cancelRequest, annotations.pauseRequest].every((key) => current.metadata.annotations?.[key] === wanted[key]);
    if (isUpToDate) continue;
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
  effects.push(...metadataEffects(observed));
  effects.push(...scheduleEffects(app, backupSchedule));
  const mirror = mirrorOf(app, status);
  if (Object.keys(mirror).length > 0) effects.push({ kind: "annotate", type: App, object: app, annotations: mirror });
  return effects;
}

/** Annotations of a Component that cancel or pause the operation of a task. */
function requestsOf(task: ChangeTask, isStopping: boolean, isPaused: boolean): Readonly<Record<string, string>> {
  if (task.token === undefined) return {};
  if (isStopping) return { [annotations.cancelRequest]: task.token };
  return isPaused && task.status === "in_progress" ? { [annotations.pauseRequest]: task.token } : {};
}

/** Applies the ConfigMap with an App's metadata if it has changed. */
function metadataEffects({ app, components, metadata }: AppObservation): Effect[] {
  const { name = "", namespace = "" } = app.metadata;
  const data = { [name]: JSON.stringify(metadataOf(app, components)) };
  if (components.size === 0 || jsonEquals(metadata?.data, data)) return [];
  const object = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: {
      name: metadataName(name),
      namespace,
      labels: { [labels.app]: name },
      ownerReferences: [controllerReference(app)],
    },
    data,
  } as DeepReadonly<ConfigMapObject>;
  return [{ kind: "apply", type: ConfigMap, object }];
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

/** Annotations that must change. Processed controls are removed. */
function mirrorOf(app: DeepReadonly<App>, status: AppStatus): Record<string, string | null> {
  const current = app.metadata.annotations ?? {};
  const change: Record<string, string | null> = {};
  const want = (key: string, value: string | undefined): void => {
    if (current[key] !== value) change[key] = value ?? null;
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
    if (current[annotations.tasks] !== text) {
      change[annotations.tasks] = text;
      change[annotations.tasksRevision] = String(Number(current[annotations.tasksRevision] ?? 0) + 1 || 1);
    }
  }
  want(annotations.pendingChange, status.pendingGeneration === undefined ? undefined : "true");
  if (status.control?.result !== undefined) want(annotations.controlResult, status.control.result);
  if (status.control?.cancel !== undefined) want(annotations.cancelControl, undefined);
  if (status.control?.retry !== undefined) want(annotations.retryControl, undefined);
  if (status.control?.approve !== undefined) want(annotations.approve, undefined);
  return change;
}

/** Metadata of an App for other programs: its components and what they run. */
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
