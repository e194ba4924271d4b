import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import type { CallResult, Effect } from "../effect.ts";
import { type Next, wait } from "./next.ts";
import { isOutdated, isSynced, type View } from "./view.ts";

/** Begins a switchover to a replica that is in sync and, if there is one, already as it is to be. */
export function switchover(from: View, views: readonly View[], status: GroupStatus, rendered: RenderedGroup): Next {
  const candidates = views.filter((view) => view !== from && view.instance !== undefined && isSynced(view, status, views));
  const isReady = (view: View): boolean => !isOutdated(view) && view.role?.configHash === rendered.configHash;
  const to = candidates.find(isReady) ?? candidates[0];
  if (to === undefined)
    return {
      kind: "fail",
      message: `no replica is in sync, so ${from.name} keeps its role and is not restarted`,
      errorClass: "AgentPrecondition",
    };
  const epoch = (status.primary?.epoch ?? 0) + 1;
  return {
    kind: "record",
    message: `hands the primary's role from ${from.name} to ${to.name}`,
    change: (next) => {
      next.switchover = { token: `${next.operation?.token ?? ""}/switchover/${epoch}`, from: from.name, to: to.name, epoch };
    },
    step: [from.name, `hands its role to ${to.name}`],
  };
}

/** Goes on with a switchover that is on record, until its Pods say that it has happened. */
export function goOnSwitching(
  switchover: NonNullable<GroupStatus["switchover"]>,
  views: readonly View[],
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
      // Another version may have written by now what the old one cannot read.
      if (next.operation?.scenario === "upgrade") next.operation.pointOfNoReturn = true;
    }, `took over from ${from}`);
  }
  if (old?.role?.role !== "primary") return wait(`waits to see whether ${to} took over from ${from}`);
  if (chosen?.ip === undefined || old.ip === undefined || chosen.role === undefined) {
    return forget(() => undefined, `was to take over from ${from} and went away`);
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
  return { kind: "do", message: `hands the primary's role from ${from} to ${to}`, effects: [effect] };
}

/** A switchover that its agent refused did not happen: strict, nobody is promoted anyway. */
function afterSwitchover(status: GroupStatus, result: CallResult): object | undefined {
  if (result.kind !== "refused") return undefined;
  const { switchover: _, ...rest } = status;
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
