import type { Resource } from "./function.ts";
import { conditionOf, numberAt, objectsAt, stringAt, valueAt } from "./read.ts";

type Pod = NonNullable<Resource>;

/** How long a container must run before it counts as started: without a readiness probe it is ready before it can fail. */
const settleMs = 3_000;

/** How long a restarted container must run before it counts as recovered. */
const recoveryMs = 10_000;

/** Waiting reasons that a container does not leave without a change. */
const terminalReasons = new Set([
  "InvalidImageName",
  "ErrImageNeverPull",
  "ImagePullBackOff",
  "CreateContainerConfigError",
  "CrashLoopBackOff",
]);

/** Why a Pod can no longer become ready, such as a crash loop. */
export function terminalPodError(pod: Pod): string | undefined {
  for (const container of containersOf(pod)) {
    const reason = stringAt(container, "state", "waiting", "reason");
    if (!terminalReasons.has(reason)) continue;
    const name = `container ${stringAt(container, "name")} of Pod ${stringAt(pod, "metadata", "name")}`;
    if (reason !== "CrashLoopBackOff") return `${name} cannot start: ${reason}`;
    const last = ["lastState", "terminated"] as const;
    const message = stringAt(container, ...last, "message").trim();
    const exitCode = numberAt(container, [...last, "exitCode"], 0);
    const restarts = numberAt(container, ["restartCount"], 0);
    return `${name} is crash-looping: exit code ${exitCode}, ${restarts} restarts${message === "" ? "" : `: ${message}`}`;
  }
  return undefined;
}

/** A Pod that is ready at the moment but may be about to fail. */
export interface UnstablePod {
  readonly message: string;
  /** When the Pod counts as stable unless it fails before. */
  readonly untilMs: number;
}

/** Why the readiness of a Pod cannot be trusted yet: a container has only just started or restarted. */
export function unstablePod(pod: Pod, now: number): UnstablePod | undefined {
  for (const container of objectsAt(pod, "status", "containerStatuses")) {
    const startedAt = Date.parse(stringAt(container, "state", "running", "startedAt"));
    if (Number.isNaN(startedAt)) continue;
    const name = stringAt(container, "name");
    const hasRestarted = numberAt(container, ["restartCount"], 0) > 0;
    if (!hasRestarted && hasReadinessProbe(pod, name)) continue;
    const untilMs = startedAt + (hasRestarted ? recoveryMs : settleMs);
    if (now >= untilMs) continue;
    const state = hasRestarted ? `restarted ${numberAt(container, ["restartCount"], 0)} times` : "has just started";
    return { message: `container ${name} of Pod ${stringAt(pod, "metadata", "name")} ${state}`, untilMs };
  }
  return undefined;
}

/** Whether a Pod is ready and not terminating. */
export function isPodReady(pod: Pod): boolean {
  const isTerminating = valueAt(pod, "metadata", "deletionTimestamp") !== undefined;
  if (isTerminating || stringAt(pod, "status", "phase") !== "Running") return false;
  const ready = conditionOf(pod, "Ready");
  if (ready !== undefined) return ready["status"] === "True";
  const containers = objectsAt(pod, "status", "containerStatuses");
  return containers.length > 0 && containers.every((container) => container["ready"] === true);
}

/** The Pods of a workload's newest revision that are not terminating. */
export function newestPods(pods: readonly Pod[]): readonly Pod[] {
  const present = pods.filter((pod) => valueAt(pod, "metadata", "deletionTimestamp") === undefined);
  const newest = present.reduce((latest, pod) => (createdAt(pod) > latest ? createdAt(pod) : latest), "");
  const revisions = new Set(present.filter((pod) => createdAt(pod) === newest).map(revisionOf));
  return present.filter((pod) => revisions.has(revisionOf(pod)));
}

const createdAt = (pod: Pod): string => stringAt(pod, "metadata", "creationTimestamp");

const revisionOf = (pod: Pod): string =>
  stringAt(pod, "metadata", "labels", "pod-template-hash") || stringAt(pod, "metadata", "labels", "controller-revision-hash");

const containersOf = (pod: Pod): readonly NonNullable<Resource>[] => [
  ...objectsAt(pod, "status", "initContainerStatuses"),
  ...objectsAt(pod, "status", "containerStatuses"),
];

const hasReadinessProbe = (pod: Pod, name: string): boolean =>
  objectsAt(pod, "spec", "containers").some((each) => each["name"] === name && each["readinessProbe"] !== undefined);
