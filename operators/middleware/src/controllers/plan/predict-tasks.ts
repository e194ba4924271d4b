import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { ChangeTask } from "../../api/app.ts";
import type { Group } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import type { Disruptions, GroupPart } from "../../api/parts.ts";
import type { Plugin } from "../../plugin/plugin.ts";

/** What a task does to Pods. */
export interface Prediction {
  /** Human-readable. */
  readonly effect: string;
  /** Undefined if only the program knows. */
  readonly disruptions?: Disruptions;
}

/** A group of a component while the tasks before have been executed. */
interface PredictedGroup {
  readonly object: DeepReadonly<Group>;
  replicas: number;
}

const nothing: Disruptions = { restarts: 0, switchovers: 0 };

/** Predicts the effects of tasks in their order of execution, as far as the plugin knows. */
export function predictTasks(
  tasks: readonly ChangeTask[],
  plugin: Plugin,
  groups: readonly DeepReadonly<Group>[],
): readonly Prediction[] {
  const predicted = groups.map(
    (object): PredictedGroup => ({ object, replicas: object.spec.stopped ? 0 : object.spec.replicas }),
  );
  return tasks.map((task) => {
    const own = predicted.filter(({ object }) => object.metadata.labels?.[labels.component] === task.targetComponent);
    return predict(task, plugin, own);
  });
}

function predict(task: ChangeTask, plugin: Plugin, groups: readonly PredictedGroup[]): Prediction {
  if (task.status === "cancelled") return { effect: "not applied: it was cancelled" };
  if (task.scenario === "provision" || task.scenario === "start") return { effect: "starts Pods", disruptions: nothing };
  if (task.scenario === "stop") return { effect: "stops all Pods, the primary last", disruptions: nothing };
  if (task.type === "version_upgrade") {
    const effect = "restarts every Pod, replicas first, with one switchover; cannot be reverted after it";
    return { effect, disruptions: restartOf(groups) };
  }
  if (task.type === "storage_volume") return { effect: "restarts nothing; cannot be reverted", disruptions: nothing };
  return task.type === "middleware_config" ? predictParameters(task, plugin, groups) : predictResources(task, groups);
}

/** Every Pod restarts, and a primary with replicas hands its role over once. */
function restartOf(groups: readonly PredictedGroup[]): Disruptions {
  return {
    restarts: groups.reduce((sum, { replicas }) => sum + replicas, 0),
    switchovers: groups.filter(({ object, replicas }) => replicas > 1 && object.status?.primary !== undefined).length,
  };
}

function predictParameters(task: ChangeTask, plugin: Plugin, groups: readonly PredictedGroup[]): Prediction {
  const before = (task.baseSpec?.config ?? {}) as Record<string, unknown>;
  const after = (task.desiredSpec.config ?? {}) as Record<string, unknown>;
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => before[name] !== after[name]);
  const classOf = (name: string) => plugin.parameters[name];
  const cold = names.filter((name) => classOf(name) === "cold" || after[name] === undefined);
  const hasTemplateValues = !jsonEquals(task.baseSpec?.groups ?? [], task.desiredSpec.groups ?? []);
  const isKnown = !hasTemplateValues && names.every((name) => classOf(name) !== undefined && after[name] !== undefined);
  if (cold.length > 0) {
    const effect = `restarts every Pod for ${cold.join(", ")}, replicas first, with one switchover`;
    const isCertain = names.some((name) => classOf(name) === "cold");
    return { effect, ...(isCertain ? { disruptions: restartOf(groups) } : {}) };
  }
  return { effect: "restarts nothing, unless the program requires it", ...(isKnown ? { disruptions: nothing } : {}) };
}

/** What a change of replicas or resources does to the Pods of a component. */
function predictResources(task: ChangeTask, groups: readonly PredictedGroup[]): Prediction {
  const parts = (task.desiredSpec.groups ?? []) as readonly Partial<GroupPart>[];
  const before = (task.baseSpec?.groups ?? []) as readonly Partial<GroupPart>[];
  const effects: string[] = [];
  let switchovers = 0;
  for (const { name = "", replicas } of parts) {
    const group = groups.find(({ object }) => object.metadata.labels?.[labels.group] === name);
    if (group === undefined || replicas === undefined || replicas === group.replicas || group.object.spec.stopped) continue;
    const { object, replicas: current } = group;
    const pod = (ordinal: number): string => `${object.metadata.name ?? ""}-${ordinal}`;
    const between = (from: number, to: number): string =>
      Array.from({ length: to - from }, (_, index) => pod(from + index)).join(", ");
    group.replicas = replicas;
    if (replicas > current) {
      effects.push(`starts ${between(current, replicas)}`);
      continue;
    }
    const primary = object.status?.primary?.pod;
    const isRemoved = primary !== undefined && replicas > 0 && Number(primary.slice(primary.lastIndexOf("-") + 1)) >= replicas;
    switchovers += Number(isRemoved);
    effects.push(
      `${isRemoved ? `one switchover from ${primary} to a remaining replica, then ` : ""}removes ${between(replicas, current)}`,
    );
  }
  const hasOther = parts.some((part) => {
    const old = before.find(({ name }) => name === part.name);
    return !jsonEquals([old?.resources ?? null, old?.affinity ?? null], [part.resources ?? null, part.affinity ?? null]);
  });
  const effect = effects.length > 0 ? effects.join("; ") : "restarts Pods one by one if their resources change";
  return { effect, ...(hasOther ? {} : { disruptions: { restarts: 0, switchovers } }) };
}
