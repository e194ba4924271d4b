import type { PersistentVolumeClaimSpec } from "@keelson/api-machinery/kinds";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import { invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { valueAt } from "../../object-fields.ts";
import type { Received } from "../../received.ts";
import type { Causes } from "../../causes.ts";

/** The access modes of volumes, in the order of kube-apiserver's messages. */
export const accessModes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/** Validates the spec of a claim at `path`. */
export function* claimSpecCauses(spec: Received<PersistentVolumeClaimSpec> | undefined, path: string): Causes {
  const modes = spec?.accessModes ?? [];
  yield* modes.length === 0 ? [requiredCause(`${path}.accessModes`, "at least 1 access mode is required")] : [];
  yield* check.labelSelector(`${path}.selector`, spec?.selector);
  for (const mode of modes) {
    yield;
    yield* check.oneOf(`${path}.accessModes`, mode, accessModes);
  }
  const size = spec?.resources?.requests?.storage;
  if (!isQuantity(size)) yield requiredCause(`${path}.resources[storage]`);
  else if (compareQuantities(size, 0) <= 0) {
    yield invalidCause(`${path}.resources[storage]`, size, "must be greater than zero");
  }
  yield* check.dnsSubdomain(`${path}.storageClassName`, spec?.storageClassName);
  yield* check.oneOf(`${path}.volumeMode`, spec?.volumeMode, ["Block", "Filesystem"]);
  for (const field of ["dataSource", "dataSourceRef"] as const) {
    const source = spec?.[field];
    if (source !== undefined) yield* sourceCauses(source, `${path}.${field}`);
  }
  yield* check.dnsSubdomain(`${path}.volumeAttributesClassName`, valueAt(spec, "volumeAttributesClassName"));
}

/** Validates the reference to the object that a volume is filled from. */
function sourceCauses(
  { name = "", kind = "", apiGroup = "" }: { readonly name?: string; readonly kind?: string; readonly apiGroup?: string },
  path: string,
): StatusCause[] {
  const causes = [...check.nonEmpty(`${path}.name`, name), ...check.nonEmpty(`${path}.kind`, kind)];
  if (apiGroup === "" && kind !== "PersistentVolumeClaim") {
    const detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
    causes.push(invalidCause(path, kind, detail));
  }
  return [...causes, ...check.dnsSubdomain(`${path}.apiGroup`, apiGroup)];
}
