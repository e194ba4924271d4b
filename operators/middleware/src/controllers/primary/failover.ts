import { Pod } from "@keelson/api-machinery/kinds";
import type { GroupStatus } from "../../api/group.ts";
import { annotations } from "../../api/names.ts";
import type { CallResult, Effect } from "../effect.ts";
import { type Next, wait } from "../group/next.ts";
import type { GroupObservation } from "../group/observation.ts";
import type { PodView } from "../group/pod-view.ts";
import { byPreference } from "./members.ts";

/**
 * Replaces a primary that has failed: its Pod was deleted, its agent or program does not respond, or its program was restarted and
 * may have lost data. The replica with the most data is promoted.
 *
 * ```text
 *   primary failed --> failover recorded --> replica fences the primary and promotes itself --> primary recorded
 *                             \--> the primary does not respond: fencing recorded, its Pod is terminated --/
 * ```
 *
 * **Guarantees**: two primaries never both accept writes. A replica is promoted only after the old primary was fenced, its
 * program was found not running, or the kubelet confirmed the end of its Pod.
 */
export function reconcileFailover({ group }: GroupObservation, views: readonly PodView[], status: GroupStatus): Next {
  const { primary: recorded, fencing, failover } = status;
  if (recorded === undefined) return { kind: "settled" };
  if (fencing !== undefined) return terminate(fencing, views, group.metadata.namespace);
  const isLossAccepted = group.metadata.annotations?.[annotations.acceptDataLoss] === String(failover?.epoch);
  if (failover !== undefined) return continueFailover(failover, views, status, isLossAccepted);
  const primary = views.find((view) => view.name === recorded.pod);
  if (primary?.role?.role === "primary") return { kind: "settled" };
  const elected = electedBy(views, recorded);
  if (elected !== undefined) return elected;
  const [best] = candidatesOf(byPreference(views, group.spec.highAvailability?.preferredPrimaries ?? []), primary);
  if (best === undefined) return { kind: "settled" };
  return startFailover(recorded.pod, best, nextEpoch(views, recorded.epoch));
}

/** Records the Pod that the agents elected, or that an interrupted failover promoted. */
function electedBy(views: readonly PodView[], { pod, epoch }: NonNullable<GroupStatus["primary"]>): Next | undefined {
  const promoted = views.filter(
    (view) => view.role?.role === "primary" && view.name !== pod && (view.role.epoch ?? 0) >= epoch,
  );
  const [only] = promoted;
  return only !== undefined && promoted.length === 1 ? recordPrimary(only.name, only.role?.epoch ?? 0) : undefined;
}

/** An epoch that is newer than all that the agents know: they may have elected a primary while the controller was away. */
function nextEpoch(views: readonly PodView[], recorded: number): number {
  return Math.max(recorded, ...views.map((view) => view.role?.epoch ?? 0)) + 1;
}

/** Orders replicas by their data, the one with the most first. Data of a later timeline is newer, however little it is. */
function byData({ role: a }: PodView, { role: b }: PodView): number {
  return (b?.timeline ?? 0) - (a?.timeline ?? 0) || (b?.offset ?? 0) - (a?.offset ?? 0);
}

/** Replicas that can take over, the one with the most data first, and the preferred one of several. */
function candidatesOf(views: readonly PodView[], primary: PodView | undefined): readonly PodView[] {
  // An offset of 0 or 1 means that a replica never completed its initial sync.
  const hasData = ({ role }: PodView): boolean => role?.role === "replica" && (role.offset ?? 0) > 1;
  return views.filter((view) => view !== primary && view.instance !== undefined && hasData(view)).sort(byData);
}

/** Records which replica is promoted after the primary failed. */
export function startFailover(from: string, to: PodView, epoch: number): Next {
  return {
    kind: "record",
    message: `failing over from ${from} to ${to.name}`,
    change: (next) => {
      next.failover = { from, to: to.name, epoch };
    },
    step: [from, `failed; promoting ${to.name}`],
  };
}

/** Requests a takeover until the replica reports that it is the primary. */
function continueFailover(
  { from, to, epoch }: NonNullable<GroupStatus["failover"]>,
  views: readonly PodView[],
  status: GroupStatus,
  isLossAccepted: boolean,
): Next {
  const [old, chosen] = [views.find((view) => view.name === from), views.find((view) => view.name === to)];
  if (chosen?.role?.role === "primary") return recordPrimary(to, Math.max(epoch, chosen.role.epoch ?? 0));
  const elected = electedBy(views, { pod: from, epoch });
  if (elected !== undefined) return elected;
  if (chosen?.role?.role !== "replica" || chosen.ip === undefined) {
    // It may have been promoted before it failed: it must be gone before another replica takes over.
    const uid = chosen?.role === undefined ? chosen?.pod?.metadata.uid : undefined;
    return {
      kind: "record",
      message: `failover to ${to} abandoned: it is not available`,
      change: (next) => {
        delete next.failover;
        next.primary = { pod: from, epoch };
        if (uid !== undefined) next.fencing = { pod: to, uid };
      },
    };
  }
  // The kubelet deletes a Pod when its programs have ended: an address that no Pod has any more needs no fencing.
  const isPrimaryDown = old?.pod === undefined || old.ip !== chosen.role.primaryHost;
  const others = views
    .filter((view) => view !== old && view !== chosen && view.role?.role === "replica")
    .flatMap((view) => view.ip ?? []);
  const token = `failover/${epoch}`;
  const replicas = isLossAccepted ? {} : { replicas: views.filter((view) => view !== old).length };
  const down = isPrimaryDown ? { isPrimaryDown } : {};
  const effect: Effect = {
    kind: "call",
    ip: chosen.ip,
    call: { method: "Failover", target: chosen.ip, others, epoch, token, ...down, ...replicas },
    after: (result) => {
      const [best] = candidatesOf(views, old);
      const hasBetterCandidate = best !== undefined && byData(best, chosen) < 0;
      return afterTakeover(status, result, { old, hasBetterCandidate });
    },
  };
  const reason = status.failover?.refusal;
  const message = `failing over from ${from} to ${to}${reason === undefined ? "" : `: ${reason}`}`;
  return { kind: "do", message, effects: [effect] };
}

/**
 * A primary that does not respond must be terminated before the takeover. A refused replica is dropped if another one has more data by now
 * (`hasBetterCandidate`): the first may be unable to receive it. Other refusals are retried.
 */
function afterTakeover(
  { failover, ...status }: GroupStatus,
  result: CallResult,
  { old, hasBetterCandidate }: { readonly old: PodView | undefined; readonly hasBetterCandidate: boolean },
): object | undefined {
  if (result.kind !== "refused" || failover === undefined) return undefined;
  if (!result.mustTerminate) {
    if (hasBetterCandidate) return { ...status, primary: { pod: failover.from, epoch: failover.epoch } };
    const isKnown = failover.refusal === result.message;
    return isKnown ? undefined : { ...status, failover: { ...failover, refusal: result.message } };
  }
  const uid = old?.pod?.metadata.uid;
  return old === undefined || uid === undefined ? undefined : { ...status, failover, fencing: { pod: old.name, uid } };
}

/** Terminates a Pod that may accept writes but does not respond, and waits until the kubelet has confirmed its end. */
function terminate(
  { pod: name, uid }: NonNullable<GroupStatus["fencing"]>,
  views: readonly PodView[],
  namespace: string | undefined,
): Next {
  const { pod, role } = views.find((view) => view.name === name) ?? {};
  if (role?.role === "primary") {
    return {
      kind: "record",
      message: `${name} responds again`,
      change: (next) => {
        delete next.fencing;
        delete next.failover;
      },
    };
  }
  if (pod === undefined || pod.metadata.uid !== uid) {
    return {
      kind: "record",
      message: `${name} has been terminated`,
      change: (next) => {
        delete next.fencing;
      },
    };
  }
  if (pod.metadata.deletionTimestamp !== undefined)
    return wait(`waiting for the kubelet to confirm that ${name} has terminated`);
  return {
    kind: "do",
    message: `terminating ${name}, which does not respond`,
    effects: [{ kind: "delete", type: Pod, key: { namespace, name }, uid, gracePeriodSeconds: 1 }],
  };
}

function recordPrimary(pod: string, epoch: number): Next {
  return {
    kind: "record",
    message: `${pod} is the primary`,
    change: (next) => {
      delete next.failover;
      next.primary = { pod, epoch };
    },
    step: [pod, "becomes the primary"],
  };
}
