import { type DeepReadonly, isJsonObject, jsonEquals } from "@keelson/api-machinery";
import type { ChangeTask } from "../../api/app.ts";
import type { Group } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import type { Disruptions, GroupPart } from "../../api/parts.ts";
import { hasAgent, hasPair, type Plugin } from "../../plugin/plugin.ts";

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
  partition: number;
}

const nothing: Disruptions = { restarts: 0, switchovers: 0 };

/** Predicts the effects of tasks in their order of execution, as far as the plugin knows. */
export function predictTasks(
  tasks: readonly ChangeTask[],
  plugin: Plugin,
  groups: readonly DeepReadonly<Group>[],
): readonly Prediction[] {
  const predicted = groups.map(
    (object): PredictedGroup => ({
      object,
      replicas: object.spec.stopped ? 0 : object.spec.replicas,
      partition: object.spec.rollingUpdate?.partition ?? 0,
    }),
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
    const [from = "", to = ""] = [task.baseSpec, task.desiredSpec].map((spec) => versionOf(spec));
    if (hasPair(plugin.stopFor, from, to)) return predictStop(groups);
    const isAgentless = !hasAgent(plugin, task.targetComponent);
    const ending = isAgentless || heldBy(groups) !== "" ? "" : "; cannot be reverted after it";
    return { effect: `${restartEffect(isAgentless, groups)}${ending}`, disruptions: restartOf(groups) };
  }
  if (task.type === "storage_volume") return { effect: "restarts nothing; cannot be reverted", disruptions: nothing };
  return task.type === "middleware_config" ? predictParameters(task, plugin, groups) : predictResources(task, groups);
}

const versionOf = (spec: ChangeTask["desiredSpec"] | undefined): string | undefined => {
  const runtime = spec?.["runtime"];
  return isJsonObject(runtime) && typeof runtime["version"] === "string" ? runtime["version"] : undefined;
};

/** An upgrade between versions that do not replicate. */
function predictStop(groups: readonly PredictedGroup[]): Prediction {
  const restarts = groups.reduce((sum, { replicas }) => sum + replicas, 0);
  const effect =
    "checks the data, then stops all Pods: no reads or writes until the primary's data is upgraded; the replicas copy it; cannot be reverted after the upgrade of the data";
  return { effect, disruptions: { restarts, switchovers: 0 } };
}

const ordinalOf = (pod: string): number => Number(pod.slice(pod.lastIndexOf("-") + 1));

/** Every Pod that no partition holds restarts, and a primary among them that has replicas hands its role over once. */
function restartOf(groups: readonly PredictedGroup[]): Disruptions {
  return {
    restarts: groups.reduce((sum, { replicas, partition }) => sum + Math.max(replicas - partition, 0), 0),
    switchovers: groups.filter(({ object: { status }, replicas, partition }) => {
      const primary = status?.primary;
      return replicas > 1 && primary !== undefined && ordinalOf(primary.pod) >= partition;
    }).length,
  };
}

function restartEffect(isAgentless: boolean, groups: readonly PredictedGroup[], reason = ""): string {
  const { switchovers } = restartOf(groups);
  const held = heldBy(groups);
  const pods = held === "" ? `restarts every Pod${reason}` : `restarts Pods${reason}`;
  if (isAgentless) return `${pods}, the first one alone, then in batches${held}`;
  return `${pods}, replicas first, with ${switchovers === 0 && held !== "" ? "no" : "one"} switchover${held}`;
}

/** What the partitions of groups hold back. */
function heldBy(groups: readonly PredictedGroup[]): string {
  const held = groups.filter(({ replicas, partition }) => Math.min(replicas, partition) > 0);
  return held
    .map(({ object, partition }) => `; partition ${partition} of ${object.metadata.name ?? ""} holds the Pods below it`)
    .join("");
}

function predictParameters(task: ChangeTask, plugin: Plugin, groups: readonly PredictedGroup[]): Prediction {
  const before = (task.baseSpec?.config ?? {}) as Record<string, unknown>;
  const after = (task.desiredSpec.config ?? {}) as Record<string, unknown>;
  if (!jsonEquals(task.baseSpec?.tls ?? null, task.desiredSpec.tls ?? null)) {
    const effect = "restarts every Pod for tls, replicas first, with one switchover";
    return { effect, disruptions: restartOf(groups) };
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => before[name] !== after[name]);
  const isAgentless = !hasAgent(plugin, task.targetComponent);
  const classOf = (name: string) => (isAgentless ? "cold" : plugin.parameters[name]);
  const cold = names.filter((name) => classOf(name) === "cold" || after[name] === undefined);
  const hasTemplateValues = !jsonEquals(task.baseSpec?.groups ?? [], task.desiredSpec.groups ?? []);
  const isKnown = !hasTemplateValues && names.every((name) => classOf(name) !== undefined && after[name] !== undefined);
  if (cold.length > 0) {
    const effect = restartEffect(isAgentless, groups, ` for ${cold.join(", ")}`);
    const isCertain = names.some((name) => classOf(name) === "cold");
    return { effect, ...(isCertain ? { disruptions: restartOf(groups) } : {}) };
  }
  if (isAgentless) return { effect: restartEffect(isAgentless, groups, " if its template changes") };
  return { effect: "restarts nothing, unless the program requires it", ...(isKnown ? { disruptions: nothing } : {}) };
}

/** What a change of replicas, the partition or resources does to the Pods of a component. */
function predictResources(task: ChangeTask, groups: readonly PredictedGroup[]): Prediction {
  const parts = (task.desiredSpec.groups ?? []) as readonly Partial<GroupPart>[];
  const before = (task.baseSpec?.groups ?? []) as readonly Partial<GroupPart>[];
  const changes = parts.flatMap((part) => {
    const group = groups.find(({ object }) => object.metadata.labels?.[labels.group] === part.name);
    if (group === undefined || group.object.spec.stopped) return [];
    return [predictPartition(part, group), predictReplicas(part, group)];
  });
  const hasOther = parts.some((part) => {
    const old = before.find(({ name }) => name === part.name);
    return !jsonEquals([old?.resources ?? null, old?.affinity ?? null], [part.resources ?? null, part.affinity ?? null]);
  });
  const effects = changes.map(({ effect }) => effect).filter((effect) => effect !== "");
  const effect = effects.length > 0 ? effects.join("; ") : "restarts Pods one by one if their resources change";
  return { effect, ...(hasOther ? {} : { disruptions: changes.map(({ disruptions }) => disruptions).reduce(add, nothing) }) };
}

const add = (a: Disruptions, b: Disruptions): Disruptions => ({
  restarts: a.restarts + b.restarts,
  switchovers: a.switchovers + b.switchovers,
});

interface PartPrediction {
  /** Empty if nothing happens. */
  readonly effect: string;
  readonly disruptions: Disruptions;
}

const podsBetween = ({ object }: PredictedGroup, from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => `${object.metadata.name ?? ""}-${from + index}`).join(", ");

/** A lower partition continues a rollout that it held. */
function predictPartition({ rollingUpdate }: Partial<GroupPart>, group: PredictedGroup): PartPrediction {
  const { object, replicas } = group;
  const [from, to] = [group.partition, rollingUpdate?.partition ?? 0];
  group.partition = to;
  if (from === to) return { effect: "", disruptions: nothing };
  const { currentRevision, updateRevision, primary } = object.status ?? {};
  const end = Math.min(from, replicas);
  if (to >= end || currentRevision === updateRevision) return { effect: "restarts nothing", disruptions: nothing };
  const primaryAt = primary === undefined ? -1 : ordinalOf(primary.pod);
  const switchovers = Number(replicas > 1 && primaryAt >= to && primaryAt < end);
  const effect = `continues the rollout: changes ${podsBetween(group, to, end)}`;
  return { effect, disruptions: { restarts: end - to, switchovers } };
}

function predictReplicas({ replicas }: Partial<GroupPart>, group: PredictedGroup): PartPrediction {
  const { object, replicas: current } = group;
  if (replicas === undefined || replicas === current) return { effect: "", disruptions: nothing };
  group.replicas = replicas;
  if (replicas > current) return { effect: `starts ${podsBetween(group, current, replicas)}`, disruptions: nothing };
  const primary = object.status?.primary?.pod;
  const isRemoved = primary !== undefined && replicas > 0 && ordinalOf(primary) >= replicas;
  const before = isRemoved ? `one switchover from ${primary} to a remaining replica, then ` : "";
  return {
    effect: `${before}removes ${podsBetween(group, replicas, current)}`,
    disruptions: { restarts: 0, switchovers: Number(isRemoved) },
  };
}
