import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import { type App, type ChangeTask, priorities, type TaskType } from "../../api/app.ts";
import type { ComponentSpec } from "../../api/component.ts";
import { type AppSettings, defaultControllerSettings } from "../../settings/controller-settings.ts";
import { hasVersion, type Plugin } from "../../plugin/plugin.ts";
import type { Scenario } from "../../api/parts.ts";
import { describeChange, desiredComponents, keysOf, partOf, taskTypes, withPart } from "./desired-components.ts";

/** An invalid field of an App. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** Validates an App against its plugin and its applied state, before anything is planned. */
export function validateApp(
  app: DeepReadonly<App>,
  plugin: Plugin,
  applied: ReadonlyMap<string, DeepReadonly<ComponentSpec>>,
): readonly FieldError[] {
  const problems: FieldError[] = [];
  const { runtime, components = [] } = app.spec;
  const known = plugin.runtimes.find((each) => each.name === runtime.name);
  if (!known)
    problems.push({
      field: "spec.runtime.name",
      message: `${JSON.stringify(runtime.name)} must be one of ${plugin.runtimes.map((each) => each.name).join(", ")}`,
    });
  else if (!hasVersion(known.versions, runtime.version)) {
    problems.push({
      field: "spec.runtime.version",
      message: `${JSON.stringify(runtime.version)} must be one of ${known.versions.join(", ")}`,
    });
  }
  components.forEach((component, index) => {
    const own = plugin.components.find((each) => each.name === component.name);
    const field = `spec.components[${index}]`;
    if (!own)
      problems.push({
        field: `${field}.name`,
        message: `unknown component ${JSON.stringify(component.name)}; must be one of ${plugin.components.map((each) => each.name).join(", ")}`,
      });
    component.groups?.forEach((group, at) => {
      if (own && !own.groups.some((each) => each.name === group.name)) {
        problems.push({
          field: `${field}.groups[${at}].name`,
          message: `unknown group ${JSON.stringify(group.name)} of ${component.name}; must be one of ${own.groups.map((each) => each.name).join(", ")}`,
        });
      }
    });
  });
  for (const [name, desired] of desiredComponents(app, plugin)) {
    for (const parameter of keysOf(desired.config, undefined)) {
      // Programs ignore the case of parameters.
      if (plugin.parameters[parameter] === "forbidden" || plugin.parameters[parameter.toLowerCase()] === "forbidden")
        problems.push({
          field: `spec.config.${parameter}`,
          message: "must not be set: it would break replication or the volumes",
        });
    }
    const before = applied.get(name);
    for (const group of desired.groups) {
      const old = before?.groups.find((each) => each.name === group.name);
      const [from, to] = [old?.storage?.size, group.storage?.size];
      if (from !== undefined && to !== undefined && isQuantity(from) && isQuantity(to) && compareQuantities(to, from) < 0) {
        problems.push({
          field: `spec.components.${name}.${group.name}.storage.size`,
          message: `a volume cannot shrink from ${from} to ${to}`,
        });
      }
      if (old && (from === undefined) !== (to === undefined)) {
        problems.push({
          field: `spec.components.${name}.${group.name}.storage`,
          message: "a volume cannot be added to or removed from existing Pods",
        });
      }
      if (old?.storage && group.storage && old.storage.storageClass !== group.storage.storageClass) {
        problems.push({
          field: `spec.components.${name}.${group.name}.storage.storageClass`,
          message: "must not change: not supported yet",
        });
      }
    }
    if (before && before.runtime.version !== desired.runtime.version) {
      const [, from] = Object.entries(plugin.migrateFrom).find(([to]) => hasVersion([to], desired.runtime.version)) ?? [];
      if (!from || !hasVersion(from, before.runtime.version)) {
        problems.push({
          field: "spec.runtime.version",
          message: `the plugin does not support the upgrade from ${before.runtime.version} to ${desired.runtime.version}${from ? `; upgrade to ${from.join(" or ")} first` : ""}`,
        });
      }
    }
  }
  return problems;
}

/** Warnings of the plugin about the parameters of an App. */
export function warningsOf(app: DeepReadonly<App>, plugin: Plugin): readonly string[] {
  return [...desiredComponents(app, plugin)].flatMap(([name, { config = {} }]) => {
    const effective: Readonly<Record<string, unknown>> = { ...plugin.defaults, ...config };
    return plugin.warnings
      .filter(({ parameters }) => Object.entries(parameters).every(([key, value]) => String(effective[key]) === value))
      .map(({ message }) => `${name}: ${message}`);
  });
}

/** Numbering of tasks: the generation and its highest number so far. */
export interface PlanNumbering {
  readonly generation: number;
  readonly after: number;
}

/**
 * Plans the tasks from the applied state to an App's spec, in order of execution: by class (upgrades last,
 * unless the App's policy says first), within a class by the plugin's orders, then by name. Pure, so that `keelson app plan`
 * shows what the controller will do.
 */
export function planChanges(
  app: DeepReadonly<App>,
  plugin: Plugin,
  applied: ReadonlyMap<string, DeepReadonly<ComponentSpec>>,
  { generation, after }: PlanNumbering,
  { maxRetries, taskTimeout }: Pick<AppSettings, "maxRetries" | "taskTimeout"> = defaultControllerSettings.app,
): ChangeTask[] {
  const desired = desiredComponents(app, plugin);
  const policy = app.spec.changePolicy;
  const drafts: { task: ChangeTask; classRank: number; orderRank: number }[] = [];
  const types = policy?.order === "p0-first" ? [...taskTypes].reverse() : taskTypes;
  const names = [...desired.keys()];
  for (const [component, wanted] of desired) {
    const before = applied.get(component);
    const base = {
      targetComponent: component,
      dependencies: [],
      status: "pending" as const,
      retryCount: 0,
      maxRetries: policy?.maxRetries ?? maxRetries,
      attempt: 0,
      timeout: policy?.timeout ?? taskTimeout,
      taskId: "",
      stage: 0,
    };
    if (before === undefined) {
      const scenario = "provision";
      const task: ChangeTask = {
        ...base,
        type: "k8s_resources",
        scenario,
        priority: priorities.k8s_resources,
        description: `provision ${component}: ${wanted.groups.map((group) => `${group.replicas ?? 1} ${group.name}`).join(", ")} of ${wanted.runtime.name} ${wanted.runtime.version}`,
        desiredSpec: wanted as unknown as ChangeTask["desiredSpec"],
      };
      drafts.push({ task, classRank: -1, orderRank: stageOf(plugin, scenario, component, names) });
      continue;
    }
    for (const type of taskTypes) {
      const [from, to] = [partOf(before, type), partOf(wanted, type)];
      // Groups that the plugin no longer has are kept: an update never deletes user data.
      const after = partOf(withPart(before, type, to), type);
      if (jsonEquals(from, after)) continue;
      const scenario = scenarioOf(type, from.stopped ?? false, to.stopped ?? false);
      const task: ChangeTask = {
        ...base,
        type,
        scenario,
        priority: priorities[type],
        description: describeChange(type, from, to),
        desiredSpec: to as ChangeTask["desiredSpec"],
        baseSpec: from as ChangeTask["desiredSpec"],
      };
      drafts.push({ task, classRank: types.indexOf(type), orderRank: stageOf(plugin, scenario, component, names) });
    }
  }
  drafts.sort(
    (a, b) =>
      a.classRank - b.classRank || a.orderRank - b.orderRank || (a.task.targetComponent < b.task.targetComponent ? -1 : 1),
  );
  const stages: string[] = [];
  return drafts.map(({ task, classRank, orderRank }, index) => {
    const stage = `${classRank}/${orderRank}`;
    if (stages.at(-1) !== stage) stages.push(stage);
    return {
      ...task,
      taskId: `task-${generation}-${String(after + index + 1).padStart(2, "0")}`,
      stage: stages.length,
      dependencies: drafts.flatMap((other, at) =>
        at < index &&
        (other.task.targetComponent === task.targetComponent || (other.classRank === classRank && other.orderRank < orderRank))
          ? [`task-${generation}-${String(after + at + 1).padStart(2, "0")}`]
          : [],
      ),
    };
  });
}

function scenarioOf(type: TaskType, wasStopped: boolean, isStopped: boolean): Scenario {
  if (type === "version_upgrade") return "upgrade";
  if (type === "k8s_resources" && wasStopped !== isStopped) return isStopped ? "stop" : "start";
  return "update";
}

function stageOf(plugin: Plugin, scenario: Scenario, component: string, names: readonly string[]): number {
  const order = plugin.orders[scenario === "start" && !plugin.orders.start ? "provision" : scenario];
  if (order === undefined) return 0;
  const found = order.findIndex((stage) => stage.includes(component));
  return found < 0 ? names.length : found;
}
