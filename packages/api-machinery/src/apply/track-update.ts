import { type DeepReadonly, isJsonObject } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import { compareValues } from "./compare-values.ts";
import {
  type Endpoint,
  endpointOf,
  type FieldManagementContext,
  identityOf,
  neverOwned,
  noEntries,
  observed,
  reconciled,
  retain,
  withManagedFields,
} from "./endpoint.ts";
import { difference, union } from "../field-sets/field-set.ts";
import { runSteps, type Steps } from "../values/steps.ts";
import { capUpdateEntries, decodeEntries, entryId, type ManagedEntries, type ManagedEntry } from "./managed-entries.ts";

/**
 * Tracks field ownership after a create, update or patch (KEP-555) and returns `next` with its managedFields. The manager becomes
 * the owner of the fields that it added or changed; previous owners lose them. Removed fields have no owner. An object without
 * managedFields stays untracked until it is applied to.
 *
 * managedFields in `next` replace those of `live`: `[{}]` and `[]` reset them, and invalid ones are ignored, as they always are
 * through a subresource.
 *
 * @param live the current object; undefined on create.
 */
export function trackUpdate(
  live: DeepReadonly<KubernetesObject> | undefined,
  next: KubernetesObject,
  context: FieldManagementContext,
): KubernetesObject {
  return runSteps(trackUpdateInSteps(live, next, context));
}

/** Like {@link trackUpdate}, in steps. The objects must not change in between. */
export function* trackUpdateInSteps(
  live: DeepReadonly<KubernetesObject> | undefined,
  next: KubernetesObject,
  context: FieldManagementContext,
): Steps<KubernetesObject> {
  const endpoint = endpointOf(context);
  const given = startingEntries(live, next, endpoint);
  if (given.size === 0 && live !== undefined) return yield* withManagedFields(next, given);
  yield;
  const entries = yield* recordUpdate(live, next, given, context.manager, context, endpoint);
  yield;
  return yield* withManagedFields(next, entries);
}

function startingEntries(
  live: DeepReadonly<KubernetesObject> | undefined,
  next: KubernetesObject,
  endpoint: Endpoint,
): ManagedEntries {
  const given = next.metadata.managedFields;
  if (endpoint.subresource === "" && given !== undefined && given !== null) {
    if (isReset(given)) return noEntries;
    const entries = decodeEntries(given);
    if (entries !== undefined && entries.size > 0) return entries;
  }
  return decodeEntries(live?.metadata.managedFields) ?? noEntries;
}

function isReset(managedFields: unknown): boolean {
  if (!Array.isArray(managedFields)) return false;
  return (
    managedFields.length === 0 ||
    (managedFields.length === 1 && isJsonObject(managedFields[0]) && Object.keys(managedFields[0]).length === 0)
  );
}

/** Returns the entries after `manager` changed `live` to `next`. */
export function* recordUpdate(
  live: DeepReadonly<KubernetesObject> | undefined,
  next: DeepReadonly<KubernetesObject>,
  given: ManagedEntries,
  manager: string,
  context: FieldManagementContext,
  endpoint: Endpoint,
): Steps<Map<string, ManagedEntry>> {
  const { shape, isBuiltIn } = endpoint;
  const compared = compareValues(live ?? { ...context.emptyFields, ...unownedPart(next) }, next, shape, { isBuiltIn });
  yield;
  const comparison = observed(compared, endpoint);
  yield;
  const entries = new Map<string, ManagedEntry>();
  for (const [id, entry] of reconciled(given, shape)) {
    const unchanged = difference(entry.set, comparison.changed);
    yield;
    retain(entries, id, entry, difference(unchanged, comparison.removed));
  }
  yield;
  const changed = difference(comparison.changed, neverOwned);
  if (changed.size > 0) {
    const { manager: name, operation, apiVersion, subresource } = identityOf(manager, "Update", context, endpoint);
    const id = entryId({ manager: name, operation, apiVersion, subresource });
    const previous = entries.get(id);
    const set = previous ? union(changed, previous.set) : changed;
    entries.set(id, { manager: name, operation, apiVersion, subresource, time: context.time, set, source: undefined });
  }
  capUpdateEntries(entries);
  return entries;
}

/** Fields of a new object that are never owned: they are compared as if they existed before. */
function unownedPart({ apiVersion, kind, metadata }: DeepReadonly<KubernetesObject>): DeepReadonly<KubernetesObject> {
  const { name, namespace, uid, creationTimestamp } = metadata;
  return { apiVersion, kind, metadata: { name, namespace, uid, creationTimestamp } };
}
