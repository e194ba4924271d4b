import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import { configHashAnnotation } from "../../api/names.ts";
import { crashMessage } from "./crash-message.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import { isOutdated, type PodView } from "./pod-view.ts";
import { hasEnded, replaceFirstEnded } from "./replace-ended.ts";
import { restart } from "./restart.ts";

/**
 * Waits until every agent reports, and replaces Pods that cannot start.
 *
 * **Guarantees**: an agent that does not respond says nothing about its program, so a primary whose containers run is not restarted, and while no
 * agent responds neither is any other Pod that may run. Pods are replaced one at a time, the primary last. Those that have ended are first, as soon
 * as their backoff permits: they serve nothing, and the others may need them for a majority.
 */
export function awaitAgents(observed: GroupObservation, present: readonly PodView[], status: GroupStatus): Next {
  const { primary } = status;
  const isOld = (view: PodView): boolean => isOutdated(view) || hasOldConfig(view, observed);
  const silent = present.filter((view) => view.role === undefined && view.pod !== undefined);
  const old = silent.filter(isOld).reverse();
  // A replaced Pod must report before the next one is replaced.
  const ordered = [
    ...silent.filter((each) => !isOld(each)),
    ...old.filter(({ name }) => name !== primary?.pod),
    ...old.filter(({ name }) => name === primary?.pod),
  ];
  const replacement = replaceFirstEnded(ordered, status, observed.now);
  const [view] = ordered;
  if (replacement === undefined || replacement.kind !== "wait") return replacement ?? awaitAgent(view, isOld, present, status);
  if (view !== undefined && hasEnded(view)) return replacement;
  const next = awaitAgent(view, isOld, present, status);
  return next.kind === "wait" && replacement.dueMs !== undefined ? { ...next, dueMs: replacement.dueMs } : next;
}

/** Waits for the agent of a Pod that has not ended, and replaces the Pod if it is old and down. */
function awaitAgent(
  view: PodView | undefined,
  isOld: (view: PodView) => boolean,
  present: readonly PodView[],
  { operation, primary }: GroupStatus,
): Next {
  if (view?.pod === undefined) return { kind: "settled" };
  const { pod } = view;
  if (pod.metadata.deletionTimestamp !== undefined) return wait(`waiting for the old Pod ${view.name} to terminate`);
  const isRunning = operation?.phase === "Running";
  const isKnownReplica = view.name !== primary?.pod && present.some(({ role }) => role !== undefined);
  if (isRunning && isOld(view) && (isKnownReplica || !isContainerRunning(pod)))
    return restart(view, `replacing ${view.name}, which is down`);
  const crash = isRunning ? crashMessage(pod) : undefined;
  if (crash !== undefined) return { kind: "fail", message: `${view.name} does not start: ${crash}`, errorClass: "Config" };
  if (isRunning && isOld(view)) return wait(`${view.name} is not restarted while its agent does not respond`);
  return wait(`waiting for the agent of ${view.name}`);
}

function hasOldConfig({ instance }: PodView, { configs }: GroupObservation): boolean {
  const config = configs.find((each) => each.metadata.name === instance?.config?.metadata.name);
  return config !== undefined && config.metadata.annotations?.[configHashAnnotation] !== instance?.configHash;
}

/** Whether the kubelet reports a Pod whose containers all run, so that its program may serve clients. */
function isContainerRunning({ status }: DeepReadonly<PodObject>): boolean {
  const hasEnded = status?.containerStatuses?.some(
    ({ state }) => state?.waiting !== undefined || state?.terminated !== undefined,
  );
  return status?.phase === "Running" && hasEnded !== true;
}
