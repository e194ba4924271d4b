import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { type App, type ChangeTask, priorities, type TaskType } from "../../api/app.ts";
import type { ComponentSpec } from "../../api/component.ts";
import { type AppSettings, defaultControllerSettings } from "../../settings/controller-settings.ts";
import type { Plugin } from "../../plugin/plugin.ts";
import type { Scenario } from "../../api/parts.ts";
import { describeChange, desiredComponents, partOf, taskTypes, withPart } from "./desired-components.ts";

/** Warnings of the plugin about the parameters of an App. */
export function warningsOf(app: DeepReadonly<App>, plugin: Plugin): readonly string[] {
  return [...desiredComponents(app, plugin)].flatMap(([name, { config = {} }]) => {
    const effective: Readonly<Record<string, unknown>> = { ...plugin.defaults, ...config };
    return plugin.warnings
      .filter(({ parameters }) => Object.entries(parameters).every(([key, value]) => String(effective[key]) === value))
      .map(({ message }) => `${name}: ${message}`);
  });
}

/** Defaults of tasks for Apps without a policy. */
type TaskSettings = Pick<AppSettings, "maxRetries" | "taskTimeout">;

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
  settings: TaskSettings = defaultControllerSettings.app,
): ChangeTask[] {
  const drafts = draftTasks(app, plugin, applied, settings).toSorted(
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

/** A task before tasks are ordered and numbered. */
interface Draft {
  readonly task: ChangeTask;
  readonly classRank: number;
  readonly orderRank: number;
}

function draftTasks(
  app: DeepReadonly<App>,
  plugin: Plugin,
  applied: ReadonlyMap<string, DeepReadonly<ComponentSpec>>,
  { maxRetries, taskTimeout }: TaskSettings,
): readonly Draft[] {
  const desired = desiredComponents(app, plugin);
  const policy = app.spec.changePolicy;
  const types = policy?.order === "p0-first" ? [...taskTypes].reverse() : taskTypes;
  const rank = (scenario: Scenario, component: string) => stageOf(plugin, scenario, component, [...desired.keys()]);
  return [...desired].flatMap(([component, wanted]): readonly Draft[] => {
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
      const task = { ...base, ...provision(component, wanted) };
      return [{ task, classRank: -1, orderRank: rank("provision", component) }];
    }
    return taskTypes.flatMap((type) => {
      const change = changeOf(type, before, wanted);
      if (change === undefined) return [];
      return [{ task: { ...base, ...change }, classRank: types.indexOf(type), orderRank: rank(change.scenario, component) }];
    });
  });
}

type Change = Pick<ChangeTask, "type" | "priority" | "description" | "desiredSpec" | "baseSpec"> & {
  readonly scenario: Scenario;
};

function provision(component: string, wanted: DeepReadonly<ComponentSpec>): Change {
  const { groups, runtime } = wanted;
  const replicas = groups.map((group) => `${group.replicas ?? 1} ${group.name}`).join(", ");
  return {
    type: "k8s_resources",
    scenario: "provision",
    priority: priorities.k8s_resources,
    description: `provision ${component}: ${replicas} of ${runtime.name} ${runtime.version}`,
    desiredSpec: wanted as unknown as ChangeTask["desiredSpec"],
  };
}

/** The change of one type between two states. Undefined if there is none. */
function changeOf(
  type: TaskType,
  before: DeepReadonly<ComponentSpec>,
  wanted: DeepReadonly<ComponentSpec>,
): Change | undefined {
  const [from, to] = [partOf(before, type), partOf(wanted, type)];
  // Groups that the plugin no longer has are kept: an update never deletes user data.
  const after = partOf(withPart(before, type, to), type);
  if (jsonEquals(from, after)) return undefined;
  return {
    type,
    scenario: scenarioOf(type, from.stopped ?? false, to.stopped ?? false),
    priority: priorities[type],
    description: describeChange(type, from, to),
    desiredSpec: to as ChangeTask["desiredSpec"],
    baseSpec: from as ChangeTask["desiredSpec"],
  };
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
