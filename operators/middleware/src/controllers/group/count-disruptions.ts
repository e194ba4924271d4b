import type { GroupStatus } from "../../api/group.ts";
import type { Disruptions, Operation } from "../../api/parts.ts";

/** The part of a Group's status from which disruptions are counted. */
type Counted = Pick<GroupStatus, "restarting" | "primary" | "switchover">;

const none: Disruptions = { restarts: 0, switchovers: 0 };

/** Adds up disruptions. */
export function addDisruptions(a: Disruptions = none, b: Disruptions = none): Disruptions {
  const failovers = (a.failovers ?? 0) + (b.failovers ?? 0);
  return {
    restarts: a.restarts + b.restarts,
    switchovers: a.switchovers + b.switchovers,
    ...(failovers > 0 ? { failovers } : {}),
  };
}

/** What one recorded step disrupts; undefined if nothing. Pods that are only removed are not counted. */
export function disruptionsBetween(before: Counted, after: Counted): Disruptions | undefined {
  const { restarting } = after;
  const isRestart = before.restarting === undefined && restarting !== undefined && restarting.remove !== true;
  const hasNewPrimary = before.primary !== undefined && before.primary.pod !== after.primary?.pod;
  if (!isRestart && !hasNewPrimary) return undefined;
  const isPlanned = before.switchover !== undefined;
  return {
    restarts: isRestart ? 1 + (restarting.others?.length ?? 0) : 0,
    switchovers: Number(hasNewPrimary && isPlanned),
    failovers: Number(hasNewPrimary && !isPlanned),
  };
}

/** The count to which the operation of a new token adds: further attempts and the revert belong to the same task. */
export function earlierDisruptions(before: Operation | undefined, token: string): Disruptions | undefined {
  const taskOf = (each: string): string => each.split("/").slice(0, 2).join("/");
  return before !== undefined && taskOf(before.token) === taskOf(token) ? before.disruptions : undefined;
}
