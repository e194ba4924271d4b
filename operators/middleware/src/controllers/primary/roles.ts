import type { GroupStatus } from "../../api/group.ts";
import { call, type Next, wait } from "../group/next.ts";
import { restart } from "../group/restart.ts";
import { isOutdated, isSynced, type PodView } from "../group/pod-view.ts";

/** Ensures that one Pod is the primary and the others follow it. */
export function reconcileRoles(present: readonly PodView[], views: readonly PodView[], status: GroupStatus): Next {
  const [first] = present;
  if (first === undefined) return { kind: "settled" };
  const primary = views.find((view) => view.name === status.primary?.pod);
  const epoch = status.primary?.epoch ?? 0;
  if (status.primary === undefined || (primary === undefined && present.every((view) => view.role?.role === "unassigned"))) {
    const recovered = withMostKeys(present.filter((view) => view.role?.role === "recovering"));
    const leaders = present.filter((view) => view.role?.role === "primary");
    const isFresh = present.every((view) => view.role?.role === "unassigned");
    const chosen = leaders.length === 1 ? leaders[0] : isFresh ? first : leaders.length === 0 ? recovered : undefined;
    if (chosen === undefined) return wait(`cannot determine the primary: ${leaders.length} Pods claim the role`);
    return {
      kind: "record",
      message: `${chosen.name} becomes the primary`,
      change: (next) => {
        next.primary = { pod: chosen.name, epoch: epoch + 1 };
      },
      step: [chosen.name, "becomes the primary"],
    };
  }
  if (primary?.role === undefined || primary.ip === undefined) return wait(`waiting for the primary ${status.primary.pod}`);
  const token = `${status.primary.pod}/${epoch}`;
  if (primary.role.role !== "primary") {
    // No replica could take over (see failover): every program was restarted, so the one with the most data wins.
    const best = withMostKeys(present.filter((view) => view.role?.role === "recovering"));
    if (best !== undefined && (best.role?.keys ?? 0) > (primary.role.keys ?? 0)) {
      const action = `becomes the primary: it has more data than ${primary.name}`;
      return {
        kind: "record",
        message: `${best.name} ${action}`,
        change: (next) => {
          next.primary = { pod: best.name, epoch: epoch + 1 };
        },
        step: [best.name, action],
      };
    }
    if (primary.role.role === "unassigned" && views.some((view) => view.role?.role === "replica"))
      return wait(`the primary ${primary.name} has lost its volume, and no replica has completed its initial sync`);
    return call(
      primary,
      { method: "AssignRole", role: "primary", primary: primary.ip, epoch, token },
      `making ${primary.name} the primary`,
    );
  }
  const stray = views.find(
    (view) =>
      view !== primary && view.role !== undefined && (view.role.role !== "replica" || view.role.primaryHost !== primary.ip),
  );
  if (stray !== undefined) {
    return call(
      stray,
      { method: "AssignRole", role: "replica", primary: primary.ip, epoch, token },
      `making ${stray.name} follow ${primary.name}`,
    );
  }
  const late = present.filter((view) => !isSynced(view, status, views));
  const [last] = late;
  if (last === undefined) return { kind: "settled" };
  // An older version cannot sync from a newer primary. It serves no clients, so it is replaced by the desired Pod.
  if (late.length === 1 && status.operation?.phase === "Running" && isOutdated(last))
    return restart(last, `replacing ${last.name}, which is out of sync`);
  return wait(`waiting for ${last.name} to be in sync`);
}

/** The Pod with the most keys, the first of several. */
function withMostKeys(views: readonly PodView[]): PodView | undefined {
  return views.reduce<PodView | undefined>(
    (best, view) => (best === undefined || (view.role?.keys ?? 0) > (best.role?.keys ?? 0) ? view : best),
    undefined,
  );
}
