import type { BuiltInCondition, ContainerStatus, PodObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { type ContainerView, plannedContainers, programId } from "../pod-view.ts";
import {
  type ContainerRecord,
  creatingReason,
  type Finished,
  isInitRole,
  type PodState,
  evictedReason,
  type Waiting,
} from "../machine/pod-state.ts";
import { qosClass } from "../../resources/qos-class.ts";

/** The parts of a Pod's status that do not follow from its state. */
export interface PodAddresses {
  readonly hostIP: string;
  readonly podIP: string;
}

/** Builds the status of a Pod. A condition keeps its transition time while its status stays. */
export function podStatus(state: PodState, addresses: PodAddresses, now: number): NonNullable<PodObject["status"]> {
  const { pod } = state;
  const statusOf = (record: ContainerRecord): ContainerStatus => containerStatus(state, record);
  const mains = state.containers.filter(({ role }) => role === "main");
  const inits = state.containers.filter(({ role }) => isInitRole(role));
  const ephemerals = state.containers.filter(({ role }) => role === "ephemeral");
  const phase = phaseOf(state);
  const isTerminal = phase === "Succeeded" || phase === "Failed";
  return {
    ...(pod.metadata.generation === undefined ? {} : { observedGeneration: pod.metadata.generation }),
    phase,
    conditions: conditions(state, phase, now),
    ...(state.stop?.reason === "deadline"
      ? { reason: "DeadlineExceeded", message: "Pod was active on the node longer than the specified deadline" }
      : (state.failure ?? {})),
    hostIP: addresses.hostIP,
    podIP: addresses.podIP,
    podIPs: [{ ip: addresses.podIP }],
    startTime: formatTime(state.startTime),
    ...(inits.length === 0 ? {} : { initContainerStatuses: inits.map(statusOf) }),
    containerStatuses: mains.map((record) => (isTerminal ? { ...statusOf(record), ready: false } : statusOf(record))),
    ...(ephemerals.length === 0 ? {} : { ephemeralContainerStatuses: ephemerals.map(statusOf) }),
    qosClass: pod.status?.qosClass ?? qosClass(pod),
  };
}

function phaseOf(state: PodState): "Pending" | "Running" | "Succeeded" | "Failed" {
  if (state.end !== undefined) return state.end;
  const mains = state.containers.filter(({ role }) => role === "main");
  const hasRun = ({ current, last }: ContainerRecord): boolean =>
    last !== undefined || current.kind === "running" || current.kind === "terminated";
  return mains.length > 0 && mains.every(hasRun) ? "Running" : "Pending";
}

function containerStatus({ pod }: PodState, record: ContainerRecord): ContainerStatus {
  const uid = pod.metadata.uid ?? "";
  const container = plannedContainers(pod).find((each) => each.container.name === record.name)?.container;
  const id = (attempt: number): string => `keelson://${programId(uid, record.name, attempt)}`;
  const hasProgram = record.current.kind === "running" || record.current.kind === "terminated";
  return {
    name: record.name,
    state: shownState(record, creatingReason(pod), id),
    lastState: record.last === undefined ? {} : { terminated: terminated(record.last, id) },
    ready: isReady(record),
    // A pending attempt is not a restart yet.
    restartCount: hasProgram ? record.attempt : (record.last?.attempt ?? 0),
    image: container?.image ?? "",
    imageID: "",
    ...(hasProgram ? { containerID: id(record.attempt) } : record.last ? { containerID: id(record.last.attempt) } : {}),
    ...resourceStatus(record, container),
    started: record.role !== "ephemeral" && record.isStarted && !record.isHooked,
  };
}

/** The resources of a container that has run. While it runs, they are those that it has. */
function resourceStatus(
  { role, current, actuated }: ContainerRecord,
  container: ContainerView | undefined,
): Pick<ContainerStatus, "allocatedResources" | "resources"> {
  if (role === "ephemeral" || container === undefined) return {};
  if (current.kind !== "running" && current.kind !== "terminated") return {};
  const { requests, limits } = (current.kind === "running" ? actuated : undefined) ?? container.resources ?? {};
  const allocated = container.resources?.requests;
  return {
    ...(allocated === undefined ? {} : { allocatedResources: { ...allocated } }),
    resources: {
      ...(requests === undefined ? {} : { requests: { ...requests } }),
      ...(limits === undefined ? {} : { limits: { ...limits } }),
    },
  };
}

function isReady(record: ContainerRecord): boolean {
  if (record.role === "init") return isCompleted(record);
  return record.role !== "ephemeral" && record.isReady && !record.isHooked;
}

function shownState(
  record: ContainerRecord,
  creating: ReturnType<typeof creatingReason>,
  id: (attempt: number) => string,
): NonNullable<ContainerStatus["state"]> {
  const { current } = record;
  switch (current.kind) {
    case "waiting":
      return waiting(current);
    case "starting":
      if (current.refused !== undefined) return waiting(current.refused);
      return record.last === undefined ? { waiting: { reason: creating } } : { terminated: terminated(record.last, id) };
    case "running":
      return record.isHooked ? { waiting: { reason: creating } } : { running: { startedAt: formatTime(current.startedAt) } };
    case "terminated":
      return { terminated: terminated(current.finished, id) };
  }
}

function waiting({ reason, message }: Waiting): ContainerState {
  return { waiting: { reason, ...(message === "" ? {} : { message }) } };
}

function terminated(finished: Finished, id: (attempt: number) => string): NonNullable<ContainerState["terminated"]> {
  return {
    exitCode: finished.exitCode,
    ...(finished.signal === undefined ? {} : { signal: finished.signal }),
    reason: finished.reason,
    ...(finished.message === "" ? {} : { message: finished.message }),
    startedAt: formatTime(finished.startedAt ?? finished.finishedAt),
    finishedAt: formatTime(finished.finishedAt),
    containerID: id(finished.attempt),
  };
}
type ContainerState = NonNullable<ContainerStatus["state"]>;

/** Whether an init container has succeeded. While it runs, it is not ready. */
function isCompleted({ current }: ContainerRecord): boolean {
  return current.kind === "terminated" && current.finished.exitCode === 0;
}

/** The conditions that a Pod has only while it is being resized. */
export const resizeConditionTypes = ["PodResizePending", "PodResizeInProgress"] as const;

function resizeConditions({ pendingResize, resize, end }: PodState): BuiltInCondition[] {
  if (end !== undefined) return [];
  const [pending, inProgress] = resizeConditionTypes;
  const list: BuiltInCondition[] = [];
  if (pendingResize !== undefined) {
    const { generation, reason, message } = pendingResize;
    list.push({ type: pending, status: "True", reason, message, observedGeneration: generation });
  }
  if (resize !== undefined) {
    const { generation, problem } = resize;
    const error = problem === undefined ? {} : { reason: "Error", message: problem };
    list.push({ type: inProgress, status: "True", ...error, observedGeneration: generation });
  }
  return list;
}

/** Tells controllers that the Pod failed by no fault of its program (KEP-3329). */
function evictionConditions({ failure }: PodState): BuiltInCondition[] {
  if (failure?.reason !== evictedReason) return [];
  return [{ type: "DisruptionTarget", status: "True", reason: "TerminationByKubelet", message: failure.message }];
}

function conditions(state: PodState, phase: string, now: number): BuiltInCondition[] {
  const { pod } = state;
  const inits = state.containers.filter(({ role }) => isInitRole(role));
  const mains = state.containers.filter(({ role }) => role === "main");
  const notReady = mains.filter((record) => !record.isReady || record.isHooked).map(({ name }) => name);
  const uninitialised = inits
    .filter((record) => (record.role === "sidecar" ? !record.isStarted : !isCompleted(record)))
    .map(({ name }) => name);
  const isInitialised =
    uninitialised.length === 0 || mains.some(({ current }) => current.kind !== "waiting") || phase === "Succeeded";
  const list = (names: readonly string[]): string => `[${names.join(" ")}]`;
  const readiness: Omit<BuiltInCondition, "type"> =
    phase === "Succeeded"
      ? { status: "False", reason: "PodCompleted" }
      : phase === "Failed"
        ? { status: "False", reason: "PodFailed" }
        : notReady.length > 0
          ? { status: "False", reason: "ContainersNotReady", message: `containers with unready status: ${list(notReady)}` }
          : { status: "True" };
  const gates = pod.spec.readinessGates ?? [];
  const isOpen = ({ conditionType }: { readonly conditionType: string }): boolean =>
    (pod.status?.conditions ?? []).some(({ type, status }) => type === conditionType && status === "True");
  const closed = gates.filter((gate) => !isOpen(gate));
  const ready =
    readiness.status === "True" && closed.length > 0
      ? {
          status: "False" as const,
          reason: "ReadinessGatesNotReady",
          message: `corresponding condition of pod readiness gate "${closed[0]?.conditionType}" does not exist.`,
        }
      : readiness;
  const wanted: BuiltInCondition[] = [
    { type: "PodReadyToStartContainers", status: state.setup === "done" && state.end === undefined ? "True" : "False" },
    isInitialised
      ? { type: "Initialized", status: "True", ...(phase === "Succeeded" ? { reason: "PodCompleted" } : {}) }
      : {
          type: "Initialized",
          status: "False",
          reason: "ContainersNotInitialized",
          message: `containers with incomplete status: ${list(uninitialised)}`,
        },
    { type: "Ready", ...ready },
    { type: "ContainersReady", ...readiness },
    { type: "PodScheduled", status: "True" },
    ...resizeConditions(state),
    ...evictionConditions(state),
  ];
  return wanted.map((condition) => {
    const before = pod.status?.conditions?.find(({ type }) => type === condition.type);
    const isSame = before?.status === condition.status && before.lastTransitionTime !== undefined;
    return { ...condition, lastTransitionTime: isSame ? (before.lastTransitionTime ?? "") : formatTime(now) };
  });
}
