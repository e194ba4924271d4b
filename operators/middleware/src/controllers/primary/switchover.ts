import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import type { CallResult, Effect } from "../effect.ts";
import { type Next, wait } from "../group/next.ts";
import { startFailover } from "./failover.ts";
import { byPreference } from "./members.ts";
import { isHeld, isOutdated, isSynced, type PodView } from "../group/pod-view.ts";

/**
 * Starts a switchover to a replica that is in sync, preferably one that is already up to date. Pods below the partition run the last
 * rollout and may not be able to follow a primary of the next one, so the role goes to one of them if there are any.
 */
export function switchover(from: PodView, views: readonly PodView[], status: GroupStatus, rendered: RenderedGroup): Next {
  const ordered = byPreference(views, rendered.preferredPrimaries);
  const candidates = ordered.filter((view) => view !== from && view.instance !== undefined && isSynced(view, status, views));
  const isReady = (view: PodView): boolean => !isOutdated(view) && view.role?.configHash === view.instance?.configHash;
  const hasHeld = views.some(isHeld);
  const to = candidates.find((view) => isReady(view) && isHeld(view) === hasHeld) ?? candidates.find(isReady) ?? candidates[0];
  if (to === undefined)
    return {
      kind: "fail",
      message: `no replica is in sync; ${from.name} keeps the primary role and is not restarted`,
      errorClass: "AgentPrecondition",
    };
  const epoch = (status.primary?.epoch ?? 0) + 1;
  return {
    kind: "record",
    message: `handing the primary role from ${from.name} to ${to.name}`,
    change: (next) => {
      next.switchover = { token: `${next.operation?.token ?? ""}/switchover/${epoch}`, from: from.name, to: to.name, epoch };
    },
    step: [from.name, `hands the primary role to ${to.name}`],
  };
}

/** Continues a recorded switchover until the Pods report their new roles. */
export function continueSwitchover(
  switchover: NonNullable<GroupStatus["switchover"]>,
  views: readonly PodView[],
  status: GroupStatus,
): Next {
  const { from, to, epoch, token } = switchover;
  const [old, chosen] = [views.find((view) => view.name === from), views.find((view) => view.name === to)];
  const forget = (change: (status: GroupStatus) => void, message: string): Next => ({
    kind: "record",
    message,
    change: (next) => {
      delete next.switchover;
      change(next);
    },
    step: [to, message],
  });
  if (chosen?.role?.role === "primary" && old?.role?.role !== "primary") {
    return forget((next) => {
      next.primary = { pod: to, epoch };
    }, `became the primary after ${from}`);
  }
  // The old primary has failed in the meantime. Only the chosen replica may take over: the old agent may still promote it.
  if (old?.role?.role !== "primary" && chosen?.role?.role === "replica") {
    const failover = startFailover(from, chosen, epoch);
    if (failover.kind !== "record") return failover;
    return {
      ...failover,
      change: (next) => {
        delete next.switchover;
        failover.change(next);
      },
    };
  }
  if (old?.role?.role !== "primary" && chosen?.role === undefined) {
    return forget((next) => {
      next.primary = { pod: from, epoch };
      const uid = chosen?.pod?.metadata.uid;
      if (uid !== undefined) next.fencing = { pod: to, uid };
    }, `switchover from ${from} abandoned: neither Pod responds`);
  }
  if (old?.role?.role !== "primary") return wait(`waiting for ${to} to become the primary after ${from}`);
  if (chosen?.ip === undefined || old.ip === undefined || chosen.role === undefined) {
    return forget(() => undefined, `switchover from ${from} abandoned: the target is not available`);
  }
  const others = views
    .filter((view) => view !== old && view !== chosen && view.role !== undefined)
    .flatMap((view) => view.ip ?? []);
  const effect: Effect = {
    kind: "call",
    ip: old.ip,
    call: { method: "Failover", target: chosen.ip, others, epoch, token },
    after: (result) => afterSwitchover(status, result),
  };
  return { kind: "do", message: `handing the primary role from ${from} to ${to}`, effects: [effect] };
}

/** A refused switchover did not happen. The operation fails, and no replica is promoted. */
function afterSwitchover(status: GroupStatus, result: CallResult): object | undefined {
  if (result.kind !== "refused") return undefined;
  const { switchover: _, ...rest } = status;
  if (rest.switchoverControl?.result === "running") {
    return { ...rest, switchoverControl: { ...rest.switchoverControl, result: `refused: ${result.message}` } };
  }
  if (rest.restartControl?.result === "running") {
    return { ...rest, restartControl: { id: rest.restartControl.id, result: `refused: ${result.message}` } };
  }
  const operation = rest.operation;
  if (operation?.phase !== "Running") return rest;
  return {
    ...rest,
    operation: {
      ...operation,
      phase: "Failed",
      errorClass: "AgentPrecondition",
      message: `the switchover was refused: ${result.message}`,
    },
  };
}
