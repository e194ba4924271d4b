import type { PersistentVolumeClaimSpec } from "@keelson/api-machinery/kinds";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import { invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import type { Received } from "../../received.ts";

export const accessModes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/** Validates the spec of a claim at `path`. */
export function claimSpecCauses(spec: Received<PersistentVolumeClaimSpec> | undefined, path: string): StatusCause[] {
  const modes = spec?.accessModes ?? [];
  const causes = modes.length === 0 ? [requiredCause(`${path}.accessModes`, "at least 1 access mode is required")] : [];
  for (const mode of modes) causes.push(...check.oneOf(`${path}.accessModes`, mode, accessModes));
  const size = spec?.resources?.requests?.storage;
  if (!isQuantity(size)) causes.push(requiredCause(`${path}.resources[storage]`));
  else if (compareQuantities(size, 0) <= 0) {
    causes.push(invalidCause(`${path}.resources[storage]`, size, "must be greater than zero"));
  }
  causes.push(...check.labelSelector(`${path}.selector`, spec?.selector));
  causes.push(...check.dnsSubdomain(`${path}.storageClassName`, spec?.storageClassName));
  return [...causes, ...check.oneOf(`${path}.volumeMode`, spec?.volumeMode, ["Block", "Filesystem"])];
}
