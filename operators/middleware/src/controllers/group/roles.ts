import type { GroupStatus } from "../../api/group.ts";
import { call, type Next, wait } from "./next.ts";
import { restart } from "./restart.ts";
import { isOutdated, isSynced, type View } from "./view.ts";

/** One Pod is the primary and the others follow it. */
export function settleRoles(present: readonly View[], views: readonly View[], status: GroupStatus): Next {
  const [first] = present;
  if (first === undefined) return { kind: "settled" };
  const primary = views.find((view) => view.name === status.primary?.pod);
  const epoch = status.primary?.epoch ?? 0;
  if (status.primary === undefined || (primary === undefined && present.every((view) => view.role?.role === "unassigned"))) {
    const leaders = present.filter((view) => view.role?.role === "primary");
    const isFresh = present.every((view) => view.role?.role === "unassigned");
    const chosen = leaders.length === 1 ? leaders[0] : isFresh ? first : undefined;
    if (chosen === undefined) return wait(`waits for somebody to say which Pod is the primary: ${leaders.length} say they are`);
    return {
      kind: "record",
      message: `${chosen.name} becomes the primary`,
      change: (next) => {
        next.primary = { pod: chosen.name, epoch: epoch + 1 };
      },
      step: [chosen.name, "becomes the primary"],
    };
  }
  if (primary?.role === undefined || primary.ip === undefined) return wait(`waits for the primary ${status.primary.pod}`);
  const token = `${status.primary.pod}/${epoch}`;
  if (primary.role.role !== "primary") {
    // A volume without a memory of any role, while others have data: taking writes there would make them throw theirs away.
    if (primary.role.role === "unassigned" && views.some((view) => view.role?.role === "replica")) {
      return wait(`the primary ${primary.name} has lost its volume and others have not: hand over by hand`);
    }
    return call(
      primary,
      { method: "AssignRole", role: "primary", primary: primary.ip, epoch, token },
      `makes ${primary.name} the primary`,
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
      `makes ${stray.name} follow ${primary.name}`,
    );
  }
  const late = present.filter((view) => !isSynced(view, status, views));
  const [last] = late;
  if (last === undefined) return { kind: "settled" };
  // An older version never gets in sync with a newer primary. It serves nobody, so it is made anew the way it is wanted.
  if (late.length === 1 && status.operation?.phase === "Running" && isOutdated(last))
    return restart(last, `${last.name} is out of sync and is made anew`);
  return wait(`waits for ${last.name} to be in sync`);
}
