import type { GroupStatus } from "../../api/group.ts";
import { hasVersion } from "../../plugin/plugin.ts";
import { isHeld, isOutdated, type PodView } from "../group/pod-view.ts";

/**
 * Records that an upgrade can no longer be reverted: a Pod of the new version is the primary, or a failover to one has begun. It may have
 * written data that the old version cannot read, no matter how it became the primary. Mutates `status`.
 */
export function recordPointOfNoReturn(views: readonly PodView[], { operation, failover, primary }: GroupStatus): void {
  if (operation?.phase !== "Running" || operation.scenario !== "upgrade" || operation.pointOfNoReturn === true) return;
  const isPrimary = ({ name, role }: PodView): boolean => role?.role === "primary" || name === failover?.to;
  // The programs of the old version cannot read upgraded data, even before it is served.
  const hasUpgradedData = ({ name, role }: PodView): boolean =>
    operation.checked === true && name === primary?.pod && role?.role === "recovering" && role.dataVersion === undefined;
  if (views.some((view) => (isPrimary(view) || hasUpgradedData(view)) && isUpgraded(view))) operation.pointOfNoReturn = true;
}

/** Whether a Pod runs the new version. An image that contains another version than requested does not upgrade its program. */
function isUpgraded(view: PodView): boolean {
  const { instance, role } = view;
  if (instance === undefined || isHeld(view) || isOutdated(view)) return false;
  return role?.version === undefined || hasVersion([instance.version], role.version);
}
