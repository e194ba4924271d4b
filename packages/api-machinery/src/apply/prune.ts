import type { Endpoint } from "./endpoint.ts";
import { difference, emptySet, type FieldSet, includes, intersection, union } from "./field-set.ts";
import { fieldsOfObject } from "./fields-of-value.ts";
import { removeFields } from "./remove-fields.ts";
import { withNamedFields } from "./schema-fields.ts";

/**
 * Takes out of a merged object what its applier owned (`last`), does not apply any more (`applied`), and nobody else owns
 * (`others`). Fields that nobody owns stay, unless they are within something that goes.
 */
export function pruneDropped(
  merged: unknown,
  last: FieldSet,
  applied: FieldSet,
  others: Iterable<FieldSet>,
  { shape, isBuiltIn }: Pick<Endpoint, "shape" | "isBuiltIn">,
): unknown {
  // The applier owns all that leads to what it applies, so nothing can be missing when it applies all that it owned.
  if (includes(applied, last)) return merged;
  let managed = applied;
  for (const set of others) managed = union(managed, set);
  const lastFields = withNamedFields(last, shape);
  const mergedFields = withNamedFields(fieldsOfObject(merged, shape), shape);
  // What goes with the fields that were owned, and is neither left by that nor owned by anybody.
  const withoutLast = removeFields(merged, lastFields, shape);
  const kept = union(withNamedFields(fieldsOfObject(withoutLast, shape), shape), withNamedFields(managed, shape));
  const withoutUnowned = removeFields(merged, difference(mergedFields, kept), shape, managed);
  const gone = difference(mergedFields, withNamedFields(fieldsOfObject(withoutUnowned, shape), shape));
  // Built-in kinds do not tell an empty object or list from none.
  return removeFields(merged, intersection(gone, lastFields), shape, isBuiltIn ? emptySet : managed);
}
