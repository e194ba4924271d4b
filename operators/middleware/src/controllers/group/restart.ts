import { Pod } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import type { Effect } from "../effect.ts";
import { type Next, wait } from "./next.ts";
import type { GroupObservation } from "./observation.ts";
import type { PodView } from "./pod-view.ts";

/** Starts to replace a Pod, or with `remove` to delete it. Its UID is recorded, so that its successor is not affected. */
export function restart(view: PodView, message: string, remove = false): Next {
  return restartAll([view], message, remove);
}

/** Like {@link restart}, for Pods without agents at the same time. */
export function restartAll(views: readonly PodView[], message: string, remove = false): Next {
  const [first, ...others] = views.map(({ name, pod }) => ({ name, uid: pod?.metadata.uid ?? "" }));
  if (first === undefined) return { kind: "settled" };
  return {
    kind: "record",
    message,
    change: (next) => {
      next.restarting = {
        ...{ pod: first.name, uid: first.uid },
        ...(remove ? { remove } : {}),
        ...(others.length > 0 ? { others } : {}),
      };
    },
    step: [views.map(({ name }) => name).join(", "), remove ? "is removed" : "restarts"],
  };
}

/** Continues to replace Pods: stops their programs cleanly, then deletes the Pods. */
export function continueRestart(
  { group }: GroupObservation,
  { pod, uid, remove, others = [] }: NonNullable<GroupStatus["restarting"]>,
  views: readonly PodView[],
): Next {
  const targets = [{ name: pod, uid }, ...others];
  const names = (all: readonly { readonly name: string }[]): string => all.map(({ name }) => name).join(", ");
  const remaining = views.filter((view) =>
    targets.some((each) => each.name === view.name && each.uid === view.pod?.metadata.uid),
  );
  if (remaining.length === 0) {
    return {
      kind: "record",
      message: `${names(targets)} ${targets.length > 1 ? "have" : "has"} terminated`,
      change: (next) => {
        delete next.restarting;
      },
    };
  }
  const running = remaining.filter((view) => view.pod?.metadata.deletionTimestamp === undefined);
  if (running.length === 0) return wait(`waiting for ${names(remaining)} to terminate`);
  return {
    kind: "do",
    message: `stopping ${names(running)}`,
    effects: running.flatMap((view) => stopEffects(view, group, remove === true)),
  };
}

function stopEffects(
  { name, pod, role, ip }: PodView,
  { metadata, spec }: GroupObservation["group"],
  isDeleted: boolean,
): readonly Effect[] {
  const uid = pod?.metadata.uid ?? "";
  // A stopped Group starts again.
  const removed = isDeleted && spec.stopped !== true ? { isRemoved: true } : {};
  return [
    ...(role === undefined || ip === undefined
      ? []
      : [{ kind: "call" as const, ip, call: { method: "Stop" as const, token: uid, ...removed }, after: () => undefined }]),
    { kind: "delete", type: Pod, key: { namespace: metadata.namespace, name }, uid },
  ];
}

/** Stops the Pods one by one, the primary last. */
export function stopAll(views: readonly PodView[], status: GroupStatus): Next {
  const running = views.filter((view) => view.pod !== undefined);
  const last = running.find((view) => view.name === status.primary?.pod);
  const [first = last] = running.filter((view) => view !== last).reverse();
  return first === undefined ? { kind: "settled" } : restart(first, `stopping ${first.name}`, true);
}
