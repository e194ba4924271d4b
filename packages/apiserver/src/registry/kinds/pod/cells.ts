import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, column } from "../../builtin/builtin-resource.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";

/** Columns of `kubectl get pods`. */
export const podColumns = [
  column("Ready", "Ready containers, of all."),
  column("Status", "The phase, or the reason of a problem."),
  column("Restarts", "How often containers were restarted."),
  ageColumn,
  column("IP", "The Pod's address.", { wide: true }),
  column("Node", "The Pod's node.", { wide: true }),
  column("Nominated Node", "The node where it waits for preempted Pods to terminate.", { wide: true }),
  column("Readiness Gates", "Readiness gates that are true, of all.", { wide: true }),
];

/** Cells of {@link podColumns}. */
export function podCells(pod: DeepReadonly<KubernetesObject>, now: number): readonly (string | number)[] {
  const containers = listAt(pod, "spec", "containers");
  const summary = summarize(pod);
  const gates = listAt(pod, "spec", "readinessGates");
  const open = gates.filter((gate) => isConditionTrue(pod, textAt(gate, "conditionType")));
  const restarted = summary.restartedAt === undefined ? "" : ` (${age(summary.restartedAt, now)} ago)`;
  return [
    `${summary.ready}/${containers.length + summary.sidecars}`,
    summary.status,
    `${summary.restarts}${restarted}`,
    age(pod.metadata.creationTimestamp, now),
    textAt(pod, "status", "podIPs", 0, "ip") || textAt(pod, "status", "podIP") || "<none>",
    textAt(pod, "spec", "nodeName") || "<none>",
    textAt(pod, "status", "nominatedNodeName") || "<none>",
    gates.length === 0 ? "<none>" : `${open.length}/${gates.length}`,
  ];
}

interface Summary {
  readonly status: string;
  readonly ready: number;
  readonly restarts: number;
  readonly restartedAt: string | undefined;
  /** Init containers that keep running, which count as containers. */
  readonly sidecars: number;
}

function summarize(pod: unknown): Summary {
  const sidecarNames = new Set(
    listAt(pod, "spec", "initContainers")
      .filter((container) => textAt(container, "restartPolicy") === "Always")
      .map((container) => textAt(container, "name")),
  );
  const init = summarizeInitContainers(pod, sidecarNames);
  const isInitialized = init.status === undefined || isConditionTrue(pod, "Initialized");
  const summary = isInitialized
    ? summarizeContainers(pod, init)
    : { ...init, restarts: init.allRestarts, restartedAt: init.allRestartedAt };
  const { ready, restarts, restartedAt } = summary;
  const status = endingStatus(pod) ?? summary.status ?? statusWithoutContainers(pod);
  return { status, ready, restarts, restartedAt, sidecars: sidecarNames.size };
}

function statusWithoutContainers(pod: unknown): string {
  if (conditionOf(pod, "PodScheduled", "False") === "SchedulingGated") return "SchedulingGated";
  return textAt(pod, "status", "reason") || textAt(pod, "status", "phase");
}

/** The status of a Pod that is being deleted. Undefined if another one describes it better. */
function endingStatus(pod: unknown): string | undefined {
  if (valueAt(pod, "metadata", "deletionTimestamp") === undefined) return undefined;
  if (textAt(pod, "status", "reason") === "NodeLost") return "Unknown";
  const phase = textAt(pod, "status", "phase");
  return phase === "Succeeded" || phase === "Failed" ? undefined : "Terminating";
}

/** What a group of containers contributes to a {@link Summary}. */
interface Part {
  /** Undefined if the containers do not determine it. */
  status: string | undefined;
  ready: number;
  restarts: number;
  restartedAt: string | undefined;
}

/** Sidecars count as ready containers; `restarts` and `restartedAt` are theirs. */
interface InitPart extends Part {
  allRestarts: number;
  allRestartedAt: string | undefined;
}

/** Summarizes the init containers up to the first one that has not completed. */
function summarizeInitContainers(pod: unknown, sidecarNames: ReadonlySet<string>): InitPart {
  const none = { status: undefined, ready: 0, restarts: 0, restartedAt: undefined };
  const summary: InitPart = { ...none, allRestarts: 0, allRestartedAt: undefined };
  for (const [index, container] of listAt(pod, "status", "initContainerStatuses").entries()) {
    const finishedAt = textAt(container, "lastState", "terminated", "finishedAt");
    summary.allRestarts += restartsOf(container);
    summary.allRestartedAt = later(summary.allRestartedAt, finishedAt);
    const isSidecar = sidecarNames.has(textAt(container, "name"));
    if (isSidecar) {
      summary.restarts += restartsOf(container);
      summary.restartedAt = later(summary.restartedAt, finishedAt);
    }
    const terminated = valueAt(container, "state", "terminated");
    if (valueAt(terminated, "exitCode") === 0) continue;
    if (isSidecar && valueAt(container, "started") === true) {
      if (valueAt(container, "ready") === true) summary.ready++;
      continue;
    }
    const waiting = textAt(container, "state", "waiting", "reason");
    if (terminated !== undefined) summary.status = `Init:${ending(terminated)}`;
    else if (waiting !== "" && waiting !== "PodInitializing") summary.status = `Init:${waiting}`;
    else summary.status = `Init:${index}/${listAt(pod, "spec", "initContainers").length}`;
    break;
  }
  return summary;
}

/** Containers, added to the ready sidecars and restarts of `init`. */
function summarizeContainers(pod: unknown, init: Part): Part {
  const summary = { ...init };
  let isAnyRunning = false;
  for (const container of [...listAt(pod, "status", "containerStatuses")].reverse()) {
    summary.restarts += restartsOf(container);
    summary.restartedAt = later(summary.restartedAt, textAt(container, "lastState", "terminated", "finishedAt"));
    const waiting = textAt(container, "state", "waiting", "reason");
    const terminated = valueAt(container, "state", "terminated");
    if (waiting !== "") summary.status = waiting;
    else if (terminated !== undefined) summary.status = ending(terminated);
    else if (valueAt(container, "ready") === true && valueAt(container, "state", "running") !== undefined) {
      isAnyRunning = true;
      summary.ready++;
    }
  }
  const { status = statusWithoutContainers(pod) } = summary;
  if (status === "Completed" && isAnyRunning) summary.status = isConditionTrue(pod, "Ready") ? "Running" : "NotReady";
  return summary;
}

function ending(terminated: unknown): string {
  const reason = textAt(terminated, "reason");
  if (reason !== "") return reason;
  const signal = valueAt(terminated, "signal");
  return typeof signal === "number" && signal !== 0
    ? `Signal:${signal}`
    : `ExitCode:${String(valueAt(terminated, "exitCode") ?? 0)}`;
}

function restartsOf(container: unknown): number {
  const count = valueAt(container, "restartCount");
  return typeof count === "number" ? count : 0;
}

function later(known: string | undefined, time: string): string | undefined {
  if (time === "") return known;
  return known === undefined || Date.parse(time) > Date.parse(known) ? time : known;
}

function isConditionTrue(pod: unknown, type: string): boolean {
  return conditionOf(pod, type, "True") !== undefined;
}

/** The reason of a condition with this status; undefined if there is none. */
function conditionOf(pod: unknown, type: string, status: string): string | undefined {
  const found = listAt(pod, "status", "conditions").find(
    (condition) => textAt(condition, "type") === type && textAt(condition, "status") === status,
  );
  return found === undefined ? undefined : textAt(found, "reason");
}

/** The row condition of finished Pods, which some clients hide. */
export function podRowConditions(pod: unknown): readonly unknown[] {
  const phase = textAt(pod, "status", "phase");
  if (phase !== "Succeeded" && phase !== "Failed") return [];
  const message = phase === "Succeeded" ? "The pod has completed successfully." : "The pod failed.";
  return [{ type: "Completed", status: "True", reason: phase, message }];
}
