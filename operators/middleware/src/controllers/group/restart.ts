import { Pod } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import type { Effect } from "../effect.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import type { View } from "./view.ts";

/** Begins to replace a Pod, or with `remove` to take it away: recorded with its uid, so that its successor is left alone. */
export function restart(view: View, message: string, remove = false): Next {
  return {
    kind: "record",
    message,
    change: (next) => {
      next.restarting = { pod: view.name, uid: view.pod?.metadata.uid ?? "", ...(remove ? { remove } : {}) };
    },
    step: [view.name, remove ? "is taken away" : "restarts"],
  };
}

/** Goes on with a Pod that is being replaced: its program ends in order, then it is deleted. */
export function goOnRestarting(
  { group }: GroupObservation,
  { pod: name, uid }: NonNullable<GroupStatus["restarting"]>,
  views: readonly View[],
): Next {
  const view = views.find((each) => each.name === name);
  if (view?.pod === undefined || view.pod.metadata.uid !== uid) {
    return {
      kind: "record",
      message: `${name} has ended`,
      change: (next) => {
        delete next.restarting;
      },
    };
  }
  if (view.pod.metadata.deletionTimestamp !== undefined) return wait(`waits for ${name} to end`);
  const effects: Effect[] = [];
  if (view.role !== undefined && view.ip !== undefined) {
    effects.push({ kind: "call", ip: view.ip, call: { method: "Stop", token: uid }, after: () => undefined });
  }
  effects.push({ kind: "delete", type: Pod, key: { namespace: group.metadata.namespace, name }, uid });
  return { kind: "do", message: `stops ${name}`, effects };
}

/** Stops the Pods one by one, the primary last. */
export function stopAll(views: readonly View[], status: GroupStatus): Next {
  const running = views.filter((view) => view.pod !== undefined);
  const last = running.find((view) => view.name === status.primary?.pod);
  const [first = last] = running.filter((view) => view !== last).reverse();
  return first === undefined ? { kind: "settled" } : restart(first, `stops ${first.name}`, true);
}
