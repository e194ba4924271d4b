import { controllerReference, type DeepReadonly, draft, jsonEquals } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { Component, type ComponentStatus } from "../../api/component.ts";
import { Group, type GroupSpec } from "../../api/group.ts";
import { annotations, labels } from "../../api/names.ts";
import type { Operation } from "../../api/parts.ts";
import { addDisruptions } from "../group/count-disruptions.ts";
import { setReady } from "../ready-condition.ts";
import type { CallResult, Decision, Effect } from "../effect.ts";

/** Inputs of a decision about a Component. */
export interface ComponentObservation {
  readonly component: DeepReadonly<Component>;
  /** Groups of the Component by group name. */
  readonly groups: ReadonlyMap<string, DeepReadonly<Group>>;
  /** The ConfigMap of the plugin. */
  readonly pluginRef: { readonly name: string; readonly namespace: string };
  readonly now: number;
}

/** Name of the Group object of a group. */
const groupObjectName = (component: string, group: string): string => `${component}-${group}`;

/**
 * Decides about a Component: passes its spec to its Groups, one after another in the order that was fixed when the operation
 * started, and finishes the operation after the last Group. Pure. A changed status is written first and alone.
 */
export function decideComponent({ component, groups, pluginRef, now }: ComponentObservation): Decision {
  if (component.metadata.deletionTimestamp !== undefined) return { effects: [] };
  const { spec, metadata } = component;
  const status = draft(component.status ?? {}) as ComponentStatus;
  beginOperation(spec, status, now);
  const token = spec.operation?.token;
  const isCancelled = token !== undefined && metadata.annotations?.[annotations.cancelRequest] === token;
  const isPaused = token !== undefined && metadata.annotations?.[annotations.pauseRequest] === token;
  const { operation } = status;
  const isRunning = operation?.phase === "Running";
  const triggered = isRunning && operation.order !== undefined ? advance(operation, groups, { isCancelled, isPaused }) : [];
  if (isRunning) sumDisruptions(operation, groups);
  summarize(status, groups, spec.stopped ?? false);
  status.observedGeneration = metadata.generation ?? 0;
  setReady(status, now);
  if (!jsonEquals(status, component.status ?? {}))
    return { effects: [{ kind: "status", type: Component, object: component, status }] };
  if (operation?.phase === "Running" && operation.order === undefined) {
    const names = spec.groups.map((group) => group.name);
    return requestOrder(component, groups, names, status);
  }
  return {
    effects: triggered.flatMap((name) =>
      applyIfChanged(component, name, groups.get(name), pluginRef, { isCancelled, isPaused }),
    ),
  };
}

type Groups = ComponentObservation["groups"];

/** Records a new operation of the spec. */
function beginOperation(spec: ComponentObservation["component"]["spec"], status: ComponentStatus, now: number): void {
  if (spec.operation === undefined || status.operation?.token === spec.operation.token) return;
  const names = spec.groups.map((group) => group.name);
  status.operation = {
    token: spec.operation.token,
    scenario: spec.operation.scenario,
    phase: "Running",
    startedAt: formatTime(now),
    // Nothing runs yet, or there is nothing to order.
    ...(names.length < 2 || spec.operation.scenario === "provision" ? { order: names } : {}),
  };
}

/** Requests of the App to a running operation. */
interface Requests {
  readonly isCancelled: boolean;
  readonly isPaused: boolean;
}

/** Adds up the counts of the Groups. */
function sumDisruptions(operation: Operation, groups: Groups): void {
  const counts = [...groups.values()].flatMap((group) => answerOf(group, operation.token)?.disruptions ?? []);
  if (counts.length > 0) operation.disruptions = counts.reduce((a, b) => addDisruptions(a, b));
}

/** Advances an operation to its next Group, or finishes it. Returns the names of the Groups that must have its spec. */
function advance(operation: Operation, groups: Groups, { isCancelled, isPaused }: Requests): readonly string[] {
  const { order = [], token } = operation;
  const triggered: string[] = [];
  for (const name of order) {
    const group = groups.get(name);
    const answer = group && answerOf(group, token);
    if (isCancelled && group?.spec.operation?.token !== token) {
      finish(operation, "Cancelled", "cancelled");
      break;
    }
    if (isPaused && group?.spec.operation?.token !== token) {
      operation.message = "paused";
      break;
    }
    triggered.push(name);
    if (answer?.phase === "Succeeded") continue;
    if (answer?.phase === "Failed" || answer?.phase === "Cancelled") {
      finish(operation, answer.phase, answer.message ?? "");
      if (answer.errorClass) operation.errorClass = answer.errorClass;
      if (answer.pointOfNoReturn) operation.pointOfNoReturn = true;
      break;
    }
    operation.message = `${name}: ${answer?.message ?? "waiting for the Group"}`;
    if (answer?.pointOfNoReturn) operation.pointOfNoReturn = true;
    if (operation.scenario !== "provision") break;
  }
  const isDone = order.every((name) => {
    const group = groups.get(name);
    return group !== undefined && answerOf(group, token)?.phase === "Succeeded";
  });
  if (isDone && operation.phase === "Running") finish(operation, "Succeeded", "done");
  return triggered;
}

/** Derives the figures, version, message and phase from the Groups. */
function summarize(status: ComponentStatus, groups: Groups, isStopped: boolean): void {
  status.replicas = sum(groups, (group) => group.status?.replicas);
  status.readyReplicas = sum(groups, (group) => group.status?.readyReplicas);
  const versions = new Set([...groups.values()].flatMap((group) => group.status?.currentVersion ?? []));
  const [version] = versions;
  if (version !== undefined && versions.size === 1) status.version = version;
  const waiting = [...groups].find(([, group]) => group.status?.message !== undefined);
  if (waiting === undefined) delete status.message;
  else status.message = `${waiting[0]}: ${waiting[1].status?.message ?? ""}`;
  const settled = status.readyReplicas >= status.replicas ? "Running" : "Degraded";
  status.phase = status.operation?.phase === "Running" ? "Updating" : isStopped ? "Stopped" : settled;
}

function applyIfChanged(
  component: ComponentObservation["component"],
  name: string,
  current: ReturnType<Groups["get"]>,
  pluginRef: ComponentObservation["pluginRef"],
  requests: Requests,
): Decision["effects"] {
  const applied = applyGroup(component, name, pluginRef, requests);
  const isUpToDate =
    current !== undefined &&
    jsonEquals(current.spec, applied.spec) &&
    [annotations.cancelRequest, annotations.pauseRequest].every(
      (key) => current.metadata.annotations?.[key] === applied.metadata.annotations?.[key],
    );
  return isUpToDate ? [] : [{ kind: "apply", type: Group, object: applied }];
}

function finish(operation: Operation, phase: Operation["phase"], message: string): void {
  operation.phase = phase;
  operation.message = message;
}

function sum(
  groups: ReadonlyMap<string, DeepReadonly<Group>>,
  read: (group: DeepReadonly<Group>) => number | undefined,
): number {
  return [...groups.values()].reduce((total, group) => total + (read(group) ?? 0), 0);
}

function answerOf(group: DeepReadonly<Group>, token: string): DeepReadonly<Operation> | undefined {
  const operation = group.status?.operation;
  if (operation?.token !== token || group.spec.operation?.token !== token) return undefined;
  return (group.status?.observedGeneration ?? 0) >= (group.metadata.generation ?? 0) ? operation : undefined;
}

/** Asks a Pod for the order of the groups. Without a valid answer, the group with the primary comes last. */
function requestOrder(
  component: DeepReadonly<Component>,
  groups: ReadonlyMap<string, DeepReadonly<Group>>,
  names: readonly string[],
  status: ComponentStatus,
): Decision {
  const operation = status.operation;
  if (operation === undefined) return { effects: [] };
  const primaryLast = [...names].sort(
    (a, b) => Number(groups.get(a)?.status?.primary !== undefined) - Number(groups.get(b)?.status?.primary !== undefined),
  );
  const fix = (order: readonly string[]): object => ({ ...status, operation: { ...operation, order: [...order] } });
  // Pods without a role have no agent.
  const pods = [...groups.values()].flatMap((group) => (group.status?.pods ?? []).filter(({ role }) => role !== undefined));
  const respondent = pods.find((pod) => pod.ready && pod.role === "primary") ?? pods.find((pod) => pod.ready);
  if (respondent?.ip === undefined)
    return { effects: [{ kind: "status", type: Component, object: component, status: fix(primaryLast) }] };
  const effect: Effect = {
    kind: "call",
    ip: respondent.ip,
    call: { method: "GetGroupOrder", component: component.metadata.name ?? "", scenario: operation.scenario, groups: names },
    after: (result: CallResult) =>
      fix(result.kind === "order" && isPermutation(result.order, names) ? result.order : primaryLast),
  };
  return { effects: [effect] };
}

/** Whether `order` is a permutation of `names`. */
export function isPermutation(order: readonly string[], names: readonly string[]): boolean {
  return order.length === names.length && new Set(order).size === names.length && order.every((name) => names.includes(name));
}

function applyGroup(
  component: DeepReadonly<Component>,
  name: string,
  pluginRef: ComponentObservation["pluginRef"],
  { isCancelled, isPaused }: Requests,
): DeepReadonly<Group> {
  const { spec, metadata } = component;
  const part = spec.groups.find((group) => group.name === name);
  const groupSpec: DeepReadonly<GroupSpec> = {
    componentRef: { name: metadata.name ?? "", namespace: metadata.namespace ?? "" },
    pluginRef,
    plugin: spec.plugin,
    runtime: spec.runtime,
    replicas: part?.replicas ?? 1,
    ...(spec.config === undefined ? {} : { config: spec.config }),
    ...(spec.tls === undefined ? {} : { tls: spec.tls }),
    ...(part?.resources === undefined ? {} : { resources: part.resources }),
    ...(part?.storage === undefined ? {} : { storage: part.storage }),
    ...(part?.affinity === undefined ? {} : { affinity: part.affinity }),
    ...(part?.highAvailability === undefined ? {} : { highAvailability: part.highAvailability }),
    ...(part?.rollingUpdate === undefined ? {} : { rollingUpdate: part.rollingUpdate }),
    ...(part?.values === undefined ? {} : { values: part.values }),
    ...(spec.stopped ? { stopped: true } : {}),
    ...(spec.operation === undefined ? {} : { operation: spec.operation }),
  };
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Group",
    metadata: {
      name: groupObjectName(metadata.name ?? "", name),
      namespace: metadata.namespace ?? "",
      labels: { ...metadata.labels, [labels.group]: name },
      ...(spec.operation !== undefined && (isCancelled || isPaused)
        ? {
            annotations: {
              ...(isCancelled ? { [annotations.cancelRequest]: spec.operation.token } : {}),
              ...(isPaused ? { [annotations.pauseRequest]: spec.operation.token } : {}),
            },
          }
        : {}),
      ownerReferences: [controllerReference(component)],
    },
    spec: groupSpec,
  };
}
