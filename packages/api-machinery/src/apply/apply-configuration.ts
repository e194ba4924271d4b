import { type DeepReadonly, isJsonObject, type JsonObject, setOwn } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import { statusError, unclassifiedError } from "../protocol/status.ts";
import { compareValues } from "./compare-values.ts";
import { type Conflict, conflictError, conflictsOver } from "./conflict.ts";
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
import { difference, type FieldSet, hasPath, intersection, setsEqual } from "../field-sets/field-set.ts";
import { FieldError, fieldsOfConfig } from "../field-sets/fields-of-value.ts";
import { fieldsLastApplied, kubectlManager, withLastApplied } from "./last-applied.ts";
import { decodeEntries, entryId, type ManagedEntries, type ManagedEntry } from "./managed-entries.ts";
import { mergeValues } from "./merge-values.ts";
import { pruneDropped } from "./prune.ts";
import { withoutResetFields } from "./reset-fields.ts";
import { runSteps, type Steps } from "../values/steps.ts";
import { recordUpdate } from "./track-update.ts";

/** The owner of the fields of an object that had no managedFields when it was first applied to. */
const beforeFirstApply = "before-first-apply";

/** Fields of an existing object that an applied configuration cannot change. */
const serverMetadata = [
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "selfLink",
  "managedFields",
] as const;

/**
 * Merges an applied configuration into an object (server-side apply, KEP-555). Its fields are set and owned by the manager. Fields
 * that the manager applied before, omits now, and no other manager owns are removed. Equal values are co-owned.
 *
 * The caller checks name, namespace, uid and resourceVersion of the configuration, and defaults and validates the result. Fields
 * that the endpoint resets are ignored.
 *
 * @param live the current object; undefined to create it.
 * @returns the object with its managedFields; `live` itself if nothing but times would change.
 *
 * **Errors**: a `StatusError`: BadRequest for a configuration of another version or kind or with managedFields; code 500 without
 * a reason for one that does not match the schema; Conflict, with a cause per field, if another manager owns a field with another
 * value and `force` is not set.
 */
export function applyConfiguration(
  live: DeepReadonly<KubernetesObject> | undefined,
  config: KubernetesObject,
  context: FieldManagementContext & { readonly force: boolean },
): KubernetesObject {
  return runSteps(applyConfigurationInSteps(live, config, context));
}

/** Like {@link applyConfiguration}, in steps. The objects must not change in between. */
export function* applyConfigurationInSteps(
  live: DeepReadonly<KubernetesObject> | undefined,
  config: KubernetesObject,
  context: FieldManagementContext & { readonly force: boolean },
): Steps<KubernetesObject> {
  checkConfiguration(live, config, context);
  const endpoint = endpointOf(context);
  const decoded = decodeEntries(live?.metadata.managedFields) ?? noEntries;
  const given: ManagedEntries =
    decoded.size === 0 && live !== undefined
      ? yield* recordUpdate(undefined, live, decoded, beforeFirstApply, context, endpoint)
      : reconciled(decoded, endpoint.shape);
  yield;
  const identity = identityOf(context.manager, "Apply", context, endpoint);
  const id = entryId(identity);
  const effective = effectiveConfiguration(live, config, endpoint);
  const applied = fieldsApplied(effective, config, endpoint);
  yield;

  const others = [...given].filter(([other]) => other !== id).map(([, entry]) => entry.set);
  const merged = live === undefined ? effective : mergeValues(live, effective, endpoint.shape);
  yield;
  const last = given.get(id)?.set;
  const pruned = last === undefined ? merged : pruneDropped(merged, last, applied, others, endpoint);
  yield;
  const result = withEmptyValues(pruned, merged, effective, endpoint);
  yield;
  const compared = compareValues(live ?? {}, result, endpoint.shape, endpoint);
  yield;
  const comparison = observed(compared, endpoint);
  const entries = new Map<string, ManagedEntry>();
  const conflicts: Conflict[] = [];
  for (const [other, entry] of given) {
    if (other === id) continue;
    yield;
    const contested = intersection(entry.set, comparison.changed);
    if (contested.size > 0) conflicts.push(...conflictsOver(entry, contested));
    retain(entries, other, entry, difference(difference(entry.set, contested), comparison.removed));
  }
  if (conflicts.length > 0 && !context.force) {
    const takesOver = context.manager === kubectlManager && live !== undefined;
    const rejected = takesOver ? beyondLastApplied(conflicts, live, context, endpoint) : conflicts;
    if (rejected.length > 0) throw conflictError(rejected);
  }

  yield;
  const previous = given.get(id);
  const owned = difference(applied, neverOwned);
  // Reuses an equal set, whose serialized form is cached.
  const own = previous !== undefined && setsEqual(previous.set, owned) ? previous.set : owned;
  const isObjectSame = live !== undefined && comparison.changed.size === 0 && comparison.removed.size === 0 && result === live;
  const isOwnSame =
    previous === undefined ? own.size === 0 : previous.apiVersion === context.apiVersion && previous.set === own;
  if (own.size > 0) {
    entries.set(id, isOwnSame && isObjectSame && previous ? previous : { ...identity, time: context.time, set: own });
  }
  const areEntriesSame = decoded.size === entries.size && [...entries].every(([key, entry]) => decoded.get(key) === entry);
  if (live !== undefined && isObjectSame && areEntriesSame) return live as KubernetesObject;
  yield;
  const object = yield* withManagedFields(result, entries);
  return context.manager === kubectlManager ? withLastApplied(object, config) : object;
}

/** Empty values of the configuration stay, even if everything in them was removed. */
function withEmptyValues(
  pruned: unknown,
  merged: unknown,
  effective: JsonObject,
  { shape }: Endpoint,
): DeepReadonly<KubernetesObject> {
  return (pruned === merged ? merged : mergeValues(pruned, effective, shape)) as DeepReadonly<KubernetesObject>;
}

function checkConfiguration(
  live: DeepReadonly<KubernetesObject> | undefined,
  config: KubernetesObject,
  context: FieldManagementContext,
): void {
  if (!isJsonObject(config)) throw statusError("BadRequest", "an applied configuration must be an object");
  if (config.apiVersion !== context.apiVersion) {
    throw statusError(
      "BadRequest",
      `Incorrect version specified in apply patch. Specified patch version: ${config.apiVersion}, expected: ${context.apiVersion}`,
    );
  }
  if (live !== undefined && config.kind !== live.kind) {
    throw statusError(
      "BadRequest",
      `invalid object type: ${config.apiVersion}, Kind=${config.kind}, expected Kind=${live.kind}`,
    );
  }
  const metadata: unknown = config.metadata;
  if (metadata === undefined || metadata === null) return;
  if (!isJsonObject(metadata)) throw statusError("BadRequest", "metadata must be an object");
  if (metadata["managedFields"] !== undefined && metadata["managedFields"] !== null) {
    throw statusError("BadRequest", "metadata.managedFields must be nil");
  }
}

/** Removes from the configuration the fields that the endpoint resets and the server owns. */
function effectiveConfiguration(
  live: DeepReadonly<KubernetesObject> | undefined,
  config: KubernetesObject,
  endpoint: Endpoint,
): JsonObject {
  const effective = withoutResetFields(config as unknown as JsonObject, endpoint.resetFields);
  const metadata = effective["metadata"];
  if (!isJsonObject(metadata)) {
    const { metadata: _, ...rest } = effective;
    return live === undefined ? { ...rest, metadata: {} } : rest;
  }
  const dropped: readonly string[] = live === undefined ? ["managedFields"] : serverMetadata;
  if (!dropped.some((name) => Object.hasOwn(metadata, name))) return effective;
  const kept: JsonObject = {};
  for (const name of Object.keys(metadata)) if (!dropped.includes(name)) setOwn(kept, name, metadata[name]);
  return { ...effective, metadata: kept };
}

function fieldsApplied(effective: JsonObject, config: KubernetesObject, endpoint: Endpoint): FieldSet {
  try {
    return fieldsOfConfig(effective, endpoint.shape);
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    // Go writes a group and version as `/v1` if the group is empty.
    const version = config.apiVersion.includes("/") ? config.apiVersion : `/${config.apiVersion}`;
    const name = `${config.metadata?.namespace ?? ""}/${config.metadata?.name ?? ""}; ${version}, Kind=${config.kind}`;
    // kube-apiserver has no reason for this error.
    throw unclassifiedError(`failed to create typed patch object (${name}): ${error.message}`);
  }
}

/** Removes conflicts over fields that kubectl's client-side apply had set. */
function beyondLastApplied(
  conflicts: readonly Conflict[],
  live: DeepReadonly<KubernetesObject>,
  context: FieldManagementContext,
  endpoint: Endpoint,
): readonly Conflict[] {
  const allowed = fieldsLastApplied(live, context.apiVersion, endpoint.shape);
  return allowed === undefined ? conflicts : conflicts.filter(({ path }) => !hasPath(allowed, path));
}
