import type { Endpoint } from "./endpoint.ts";
import { difference, emptySet, type FieldSet, includes, intersection, union } from "../field-sets/field-set.ts";
import { fieldsOfObject } from "../field-sets/fields-of-value.ts";
import { removeFields } from "./remove-fields.ts";
import { withNamedFields } from "../field-sets/schema-fields.ts";

/**
 * Removes from a merged object what its applier owned (`last`), no longer applies (`applied`), and no other manager owns
 * (`others`). Unowned fields stay unless they are inside something that is removed.
 */
export function pruneDropped(
  merged: unknown,
  last: FieldSet,
  applied: FieldSet,
  others: Iterable<FieldSet>,
  { shape, isBuiltIn }: Pick<Endpoint, "shape" | "isBuiltIn">,
): unknown {
  // The applier owns every path to what it applies, so nothing is missing if it applies everything it owned.
  if (includes(applied, last)) return merged;
  let managed = applied;
  for (const set of others) managed = union(managed, set);
  const lastFields = withNamedFields(last, shape);
  const mergedFields = withNamedFields(fieldsOfObject(merged, shape), shape);
  // Unowned content of removed fields is removed with them.
  const withoutLast = removeFields(merged, lastFields, shape);
  const kept = union(withNamedFields(fieldsOfObject(withoutLast, shape), shape), withNamedFields(managed, shape));
  const withoutUnowned = removeFields(merged, difference(mergedFields, kept), shape, managed);
  const gone = difference(mergedFields, withNamedFields(fieldsOfObject(withoutUnowned, shape), shape));
  // Built-in kinds do not distinguish an empty object or list from an absent one.
  return removeFields(merged, intersection(gone, lastFields), shape, isBuiltIn ? emptySet : managed);
}
