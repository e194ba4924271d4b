import type { DeepReadonly } from "@keelson/api-machinery";
import type { GroupRollout } from "../api/update-policy.ts";
import type { Copy, RolloutObservation } from "./rollout-observation.ts";

/** A copy that is being updated. */
export type Entry = DeepReadonly<NonNullable<GroupRollout["updating"]>[number]>;

/** The copies that are being updated. */
export interface Entries {
  readonly list: readonly Entry[];
  /** Those whose outcome is open and whose robot is online. They count against `maxParallel`. */
  readonly active: readonly Entry[];
  readonly unhealthy: readonly Entry[];
  /** Whether a copy became healthy. */
  readonly hasProgress: boolean;
}

/** The copies being updated. Copies of the revision that are not available count too, whatever the reason. */
export function entriesOf(
  { revision, copies, policy, now }: RolloutObservation,
  stored: DeepReadonly<GroupRollout> | undefined,
  isOver: boolean,
): Entries {
  const past = new Map((stored?.updating ?? []).map((entry) => [entry.task, entry]));
  const list: Entry[] = [];
  let hasProgress = false;
  for (const copy of copies) {
    const entry = past.get(copy.key) ?? (isOver ? undefined : unplannedEntry(copy, revision, now));
    if (entry === undefined) continue;
    if (copy.revision === revision && copy.condition === "available" && !copy.isOffline) hasProgress = true;
    else list.push(nextEntry(entry, copy, revision, policy.healthyDeadlineMs, now));
  }
  return {
    list,
    active: list.filter(({ isOffline, problem }) => isOffline !== true && problem === undefined),
    unhealthy: list.filter(({ problem }) => problem !== undefined),
    hasProgress,
  };
}

function unplannedEntry(copy: Copy, revision: number, now: number): Entry | undefined {
  if (copy.revision !== revision || copy.condition === "available" || copy.isOffline) return undefined;
  return {
    task: copy.key,
    ...(copy.robot === undefined ? {} : { robot: copy.robot }),
    since: new Date(now).toISOString(),
  };
}

function nextEntry(entry: Entry, copy: Copy, revision: number, deadlineMs: number, now: number): Entry {
  const { isOffline: wasOffline, ...rest } = entry;
  if (rest.problem !== undefined) return rest;
  if (copy.isOffline) return { ...rest, isOffline: true };
  const current = wasOffline === true ? { ...rest, since: new Date(now).toISOString() } : rest;
  if (copy.revision === revision && copy.condition === "failed") return { ...current, problem: "the task failed" };
  if (now >= Date.parse(current.since) + deadlineMs) {
    return { ...current, problem: `not healthy within ${deadlineMs / 1000}s` };
  }
  return current;
}
