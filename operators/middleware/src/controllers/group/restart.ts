import { Pod } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import type { Effect } from "../effect.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import type { PodView } from "./pod-view.ts";

/** Starts to replace a Pod, or with `remove` to delete it. Its UID is recorded, so that its successor is not affected. */
export function restart(view: PodView, message: string, remove = false): Next {
  return {
    kind: "record",
    message,
    change: (next) => {
      next.restarting = { pod: view.name, uid: view.pod?.metadata.uid ?? "", ...(remove ? { remove } : {}) };
    },
    step: [view.name, remove ? "is removed" : "restarts"],
  };
}

/** Continues to replace a Pod: stops its program cleanly, then deletes the Pod. */
export function continueRestart(
  { group }: GroupObservation,
  { pod: name, uid }: NonNullable<GroupStatus["restarting"]>,
  views: readonly PodView[],
): Next {
  const view = views.find((each) => each.name === name);
  if (view?.pod === undefined || view.pod.metadata.uid !== uid) {
    return {
      kind: "record",
      message: `${name} has terminated`,
      change: (next) => {
        delete next.restarting;
      },
    };
  }
  if (view.pod.metadata.deletionTimestamp !== undefined) return wait(`waiting for ${name} to terminate`);
  const effects: Effect[] = [];
  if (view.role !== undefined && view.ip !== undefined) {
    effects.push({ kind: "call", ip: view.ip, call: { method: "Stop", token: uid }, after: () => undefined });
  }
  effects.push({ kind: "delete", type: Pod, key: { namespace: group.metadata.namespace, name }, uid });
  return { kind: "do", message: `stopping ${name}`, effects };
}

/** Stops the Pods one by one, the primary last. */
export function stopAll(views: readonly PodView[], status: GroupStatus): Next {
  const running = views.filter((view) => view.pod !== undefined);
  const last = running.find((view) => view.name === status.primary?.pod);
  const [first = last] = running.filter((view) => view !== last).reverse();
  return first === undefined ? { kind: "settled" } : restart(first, `stopping ${first.name}`, true);
}
