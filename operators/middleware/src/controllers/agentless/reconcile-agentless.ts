import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { crashMessage } from "../group/crash-message.ts";
import { type Next, wait } from "../group/next.ts";
import type { GroupObservation } from "../group/observation.ts";
import { isOutdated, isPodReady, type PodView } from "../group/pod-view.ts";
import { replaceFirstEnded } from "../group/replace-ended.ts";
import { continueRestart, restartAll } from "../group/restart.ts";
import { startMissing } from "../group/topology.ts";

/** Maintains the Pods of a Group without agents, with or without an operation: all exist and are ready. */
export function reconcileAgentless(
  observed: GroupObservation,
  rendered: RenderedGroup,
  views: readonly PodView[],
  status: GroupStatus,
): Next {
  if (status.restarting !== undefined) return continueRestart(observed, status.restarting, views);
  if (observed.group.spec.stopped) {
    const running = views.filter((view) => view.pod !== undefined);
    return restartAll(running, `stopping ${namesOf(running)}`, true);
  }
  const missing = startMissing(observed, rendered, views, status);
  if (missing.kind !== "settled") return missing;
  return awaitReady(views, status, observed.now);
}

/** Waits until the Pods are ready. Those of an earlier revision are not waited for while an operation replaces them. */
function awaitReady(views: readonly PodView[], status: GroupStatus, now: number): Next {
  const { operation } = status;
  const isRunning = operation?.phase === "Running";
  const unready = views.filter((view) => view.instance !== undefined && !isPodReady(view));
  const terminating = unready.find(({ pod }) => pod?.metadata.deletionTimestamp !== undefined);
  if (terminating !== undefined) return wait(`waiting for the old Pod ${terminating.name} to terminate`);
  const replacement = replaceFirstEnded(unready, status, now);
  if (replacement !== undefined) return replacement;
  const [view] = unready.filter((each) => !isRunning || !isOutdated(each));
  if (view?.pod === undefined) return { kind: "settled" };
  const crash = isRunning ? crashMessage(view.pod) : undefined;
  if (crash !== undefined) return { kind: "fail", message: `${view.name} does not start: ${crash}`, errorClass: "Config" };
  return wait(`waiting for ${view.name} to be ready`);
}

/** Names of Pods for messages. */
export const namesOf = (views: readonly PodView[]): string => views.map(({ name }) => name).join(", ");
