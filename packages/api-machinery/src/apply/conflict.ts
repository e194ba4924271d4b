import { maxCauses } from "../protocol/field-causes.ts";
import { type StatusError, statusError } from "../protocol/status.ts";
import { type FieldSet, pathsOf } from "../field-sets/field-set.ts";
import type { ManagedEntry } from "./managed-entries.ts";
import { describePath, type PathElement } from "../field-sets/path-element.ts";

/** A field that an applier changes and another manager owns. */
export interface Conflict {
  readonly owner: ManagedEntry;
  readonly path: readonly PathElement[];
}

/** Returns the conflicts over the fields of `set`, which `owner` owns. */
export function conflictsOver(owner: ManagedEntry, set: FieldSet): Conflict[] {
  return pathsOf(set).map((path) => ({ owner, path }));
}

/** Creates the 409 Conflict of an apply, with one `FieldManagerConflict` cause for each of the first {@link maxCauses} fields. */
export function conflictError(all: readonly Conflict[]): StatusError {
  const conflicts = all.slice(0, maxCauses);
  const causes = conflicts.map(({ owner, path }) => ({
    reason: "FieldManagerConflict",
    message: `conflict with ${describeOwner(owner)}`,
    field: describePath(path),
  }));
  return statusError("Conflict", messageOf(conflicts, all.length), { causes });
}

function messageOf(conflicts: readonly Conflict[], count: number): string {
  const [first] = conflicts;
  if (conflicts.length === 1 && first !== undefined) {
    return `Apply failed with 1 conflict: conflict with ${describeOwner(first.owner)}: ${describePath(first.path)}`;
  }
  const byOwner = new Map<ManagedEntry, string[]>();
  for (const { owner, path } of conflicts) {
    const lines = byOwner.get(owner) ?? [`conflicts with ${describeOwner(owner)}:`];
    lines.push(`- ${describePath(path)}`);
    byOwner.set(owner, lines);
  }
  return `Apply failed with ${count} conflicts: ${[...byOwner.values()].flat().join("\n")}`;
}

/** `"alice"`, `"alice" with subresource "status"`, `"editor" using v1`. */
function describeOwner(owner: ManagedEntry): string {
  const name = JSON.stringify(owner.manager);
  const subresource = owner.subresource === "" ? "" : ` with subresource ${JSON.stringify(owner.subresource)}`;
  return `${name}${subresource}${owner.operation === "Update" ? ` using ${owner.apiVersion}` : ""}`;
}
