import type { GroupStatus } from "../../api/group.ts";
import { call, type Next, wait } from "../group/next.ts";
import { restart } from "../group/restart.ts";
import { isOutdated, isSynced, type PodView } from "../group/pod-view.ts";

/** Ensures that one Pod is the primary and the others follow it. */
export function reconcileRoles(present: readonly PodView[], views: readonly PodView[], status: GroupStatus): Next {
  const [first] = present;
  if (first === undefined) return { kind: "settled" };
  const recorded = status.primary;
  const primary = views.find((view) => view.name === recorded?.pod);
  const isFresh = present.every((view) => view.role?.role === "unassigned");
  if (recorded === undefined || (primary === undefined && isFresh)) return choosePrimary(first, present, recorded?.epoch ?? 0);
  if (primary?.role === undefined || primary.ip === undefined) return wait(`waiting for the primary ${recorded.pod}`);
  const token = `${recorded.pod}/${recorded.epoch}`;
  const order = { method: "AssignRole", primary: primary.ip, epoch: recorded.epoch, token } as const;
  if (primary.role.role !== "primary") {
    const refused = replaceEmptyPrimary(primary, present, views, recorded.epoch);
    return refused ?? call(primary, { ...order, role: "primary" }, `making ${primary.name} the primary`);
  }
  const epoch = primary.role.epoch ?? 0;
  if (epoch > recorded.epoch) return recordPrimary(primary, epoch, `is the primary of epoch ${epoch}`);
  const stray = views.find(
    (view) =>
      view !== primary && view.role !== undefined && (view.role.role !== "replica" || view.role.primaryHost !== primary.ip),
  );
  if (stray !== undefined) return call(stray, { ...order, role: "replica" }, `making ${stray.name} follow ${primary.name}`);
  return awaitSync(present, views, status);
}

/** Records the first primary: the Pod that already is one, that recovered the newest data, or the first of a new Group. */
function choosePrimary(first: PodView, present: readonly PodView[], epoch: number): Next {
  const recovered = withNewestData(present.filter((view) => view.role?.role === "recovering"));
  const leaders = present.filter((view) => view.role?.role === "primary");
  const isFresh = present.every((view) => view.role?.role === "unassigned");
  const chosen = leaders.length === 1 ? leaders[0] : isFresh ? first : leaders.length === 0 ? recovered : undefined;
  if (chosen === undefined) return wait(`cannot determine the primary: ${leaders.length} Pods claim the role`);
  return recordPrimary(chosen, epoch + 1, "becomes the primary");
}

/** What precedes the assignment of the role to the recorded primary after all programs were restarted, if anything. */
function replaceEmptyPrimary(
  primary: PodView,
  present: readonly PodView[],
  views: readonly PodView[],
  epoch: number,
): Next | undefined {
  // No replica could take over (see failover), so the Pod with the newest data wins.
  const best = withNewestData(present.filter((view) => view.role?.role === "recovering"));
  if (best !== undefined && hasNewerData(best, primary))
    return recordPrimary(best, epoch + 1, `becomes the primary: it has newer or more data than ${primary.name}`);
  if (primary.role?.role === "unassigned" && views.some((view) => view.role?.role === "replica"))
    return wait(`the primary ${primary.name} has lost its volume, and no replica has completed its initial sync`);
  return undefined;
}

/** Records another Pod as the primary. */
export function recordPrimary({ name }: PodView, epoch: number, action: string): Next {
  return {
    kind: "record",
    message: `${name} ${action}`,
    change: (next) => {
      next.primary = { pod: name, epoch };
    },
    step: [name, action],
  };
}

function awaitSync(present: readonly PodView[], views: readonly PodView[], status: GroupStatus): Next {
  const late = present.filter((view) => !isSynced(view, status, views));
  const [last] = late;
  if (last === undefined) return { kind: "settled" };
  // An older version cannot sync from a newer primary. It serves no clients, so it is replaced by the desired Pod.
  if (late.length === 1 && status.operation?.phase === "Running" && isOutdated(last))
    return restart(last, `replacing ${last.name}, which is out of sync`);
  return wait(`waiting for ${last.name} to be in sync`);
}

/** The Pod with the newest data, the first of several. */
export function withNewestData(views: readonly PodView[]): PodView | undefined {
  return views.reduce<PodView | undefined>(
    (best, view) => (best === undefined || hasNewerData(view, best) ? view : best),
    undefined,
  );
}

/**
 * Whether the data of `a` is newer than that of `b`. A former primary may have more data than its successor, none of which counts: so the
 * later epoch wins, then the larger amount. An empty Pod never wins.
 */
function hasNewerData(a: PodView, b: PodView): boolean {
  const [keysA, keysB] = [a.role?.keys ?? 0, b.role?.keys ?? 0];
  if (keysA === 0 || keysB === 0) return keysA > keysB;
  const [epochA, epochB] = [a.role?.epoch ?? 0, b.role?.epoch ?? 0];
  return epochA === epochB ? keysA > keysB : epochA > epochB;
}
