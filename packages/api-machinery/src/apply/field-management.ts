import { type DeepReadonly, isJsonObject, type JsonObject, setOwn } from "../json.ts";
import type { KubernetesObject } from "../object.ts";
import type { Schema } from "../schema/schema.ts";
import { statusError } from "../status.ts";
import { type Comparison, compareValues } from "./compare-values.ts";
import { type Conflict, conflictError, conflictsOver } from "./conflict.ts";
import {
  difference,
  differenceWithSubtrees,
  type FieldSet,
  fieldSet,
  hasPath,
  intersection,
  setsEqual,
  union,
} from "./field-set.ts";
import { FieldError, fieldsOfConfig } from "./fields-of-value.ts";
import { fieldsLastApplied, kubectlManager, withLastApplied } from "./last-applied.ts";
import {
  capUpdateEntries,
  decodeEntries,
  encodeEntries,
  entryId,
  type ManagedEntries,
  type ManagedEntry,
} from "./managed-entries.ts";
import { mergeValues } from "./merge-values.ts";
import { fieldElement } from "./path-element.ts";
import { pruneDropped } from "./prune.ts";
import { type ResetFields, resetFieldSet, resetFieldsOf, withoutResetFields } from "./reset-fields.ts";
import { reconcileWithSchema } from "./schema-fields.ts";
import { rootShapeOf, type Shape } from "./shape.ts";

/** Who writes, through which endpoint, and what the kind looks like. */
export interface FieldManagementContext {
  /** The schema of the kind in the version of the request. */
  readonly schema: Schema;
  /** The field manager; `""` is recorded as `unknown`. */
  readonly manager: string;
  /** The version of the request, such as `apps/v1`. */
  readonly apiVersion: string;
  /** The subresource of the request; absent or `""` for the object itself. */
  readonly subresource?: string;
  /** Now: RFC 3339, whole seconds. */
  readonly time: string;
  /** Whether the kind has a status subresource: then writes to the object itself do not reach its status. */
  readonly hasStatus: boolean;
  /**
   * Whether the kind is compiled into Kubernetes rather than defined by a CRD. Default: whether its group is the core group,
   * has no dot, or ends in `.k8s.io`.
   */
  readonly isBuiltIn?: boolean;
  /** What the endpoint resets before it stores, where it is not what {@link resetFieldsOf} says. */
  readonly resetFields?: ResetFields;
}

/** Who owned the fields of an object that was not tracked before it was first applied to. */
const beforeFirstApply = "before-first-apply";

/** What nobody owns: the identity of the object, and what the server keeps there. */
const neverOwned = fieldSet(
  ["f:apiVersion"],
  ["f:kind"],
  ["f:metadata"],
  ...[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
  ].map((name) => ["f:metadata", fieldElement(name)]),
);

/** What an applied configuration cannot say about an object that exists. */
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

interface Endpoint {
  readonly shape: Shape;
  readonly isBuiltIn: boolean;
  readonly resetFields: ResetFields;
  readonly subresource: string;
}

function endpointOf(context: FieldManagementContext): Endpoint {
  const isBuiltIn = context.isBuiltIn ?? isBuiltInVersion(context.apiVersion);
  const subresource = context.subresource ?? "";
  return {
    shape: rootShapeOf(context.schema),
    isBuiltIn,
    subresource,
    resetFields: context.resetFields ?? resetFieldsOf(subresource, context.hasStatus, isBuiltIn),
  };
}

function isBuiltInVersion(apiVersion: string): boolean {
  const slash = apiVersion.indexOf("/");
  const group = slash < 0 ? "" : apiVersion.slice(0, slash);
  return !group.includes(".") || group.endsWith(".k8s.io");
}

/**
 * Records who owns what after a create, update or patch (KEP-555): `next` with the managedFields that it is to be stored
 * with. The manager comes to own the fields that it added or changed, and who owned them before does not any more; what is
 * gone is nobody's. An object that nobody tracks stays untracked until it is applied to.
 *
 * `next` may bring managedFields of its own, which then replace those of `live`: `[{}]` and `[]` forget them all, invalid
 * ones are ignored, and through a subresource they always are.
 *
 * @param live the object before; undefined on create.
 */
export function trackUpdate(
  live: DeepReadonly<KubernetesObject> | undefined,
  next: KubernetesObject,
  context: FieldManagementContext,
): KubernetesObject {
  const endpoint = endpointOf(context);
  const given = startingEntries(live, next, endpoint);
  if (given.size === 0 && live !== undefined) return withManagedFields(next, given);
  const entries = recordUpdate(live, next, given, context.manager, context, endpoint);
  return withManagedFields(next, entries);
}

function startingEntries(
  live: DeepReadonly<KubernetesObject> | undefined,
  next: KubernetesObject,
  endpoint: Endpoint,
): Map<string, ManagedEntry> {
  const given = next.metadata.managedFields;
  if (endpoint.subresource === "" && given !== undefined && given !== null) {
    if (isReset(given)) return new Map();
    const entries = decodeEntries(given);
    if (entries !== undefined && entries.size > 0) return entries;
  }
  return decodeEntries(live?.metadata.managedFields) ?? new Map();
}

function isReset(managedFields: unknown): boolean {
  if (!Array.isArray(managedFields)) return false;
  return (
    managedFields.length === 0 ||
    (managedFields.length === 1 && isJsonObject(managedFields[0]) && Object.keys(managedFields[0]).length === 0)
  );
}

function recordUpdate(
  live: DeepReadonly<KubernetesObject> | undefined,
  next: DeepReadonly<KubernetesObject>,
  given: ManagedEntries,
  manager: string,
  context: FieldManagementContext,
  endpoint: Endpoint,
): Map<string, ManagedEntry> {
  const { shape, isBuiltIn } = endpoint;
  const comparison = observed(
    compareValues(live ?? { apiVersion: next.apiVersion, kind: next.kind, metadata: {} }, next, shape, { isBuiltIn }),
    endpoint,
  );
  const entries = new Map<string, ManagedEntry>();
  for (const [id, entry] of given) {
    const set = reconcileWithSchema(entry.set, shape);
    retain(entries, id, entry, difference(difference(set, comparison.changed), comparison.removed));
  }
  const changed = difference(comparison.changed, neverOwned);
  if (changed.size > 0) {
    const identity = identityOf(manager, "Update", context, endpoint);
    const id = entryId(identity);
    const previous = entries.get(id);
    entries.set(id, { ...identity, time: context.time, set: previous ? union(changed, previous.set) : changed });
  }
  capUpdateEntries(entries);
  return entries;
}

/** The comparison without managedFields, which no set may contain, and without what the endpoint resets. */
function observed(comparison: Comparison, endpoint: Endpoint): Comparison {
  const reset = resetFieldSet(endpoint.resetFields);
  return {
    changed: differenceWithSubtrees(differenceWithSubtrees(comparison.changed, managedFieldsOnly), reset),
    removed: differenceWithSubtrees(differenceWithSubtrees(comparison.removed, managedFieldsOnly), reset),
  };
}

const managedFieldsOnly = fieldSet(["f:metadata", "f:managedFields"]);

function identityOf(
  manager: string,
  operation: "Apply" | "Update",
  context: FieldManagementContext,
  endpoint: Endpoint,
): Pick<ManagedEntry, "manager" | "operation" | "apiVersion" | "subresource"> {
  return {
    manager: manager === "" ? "unknown" : manager,
    operation,
    apiVersion: context.apiVersion,
    subresource: endpoint.subresource,
  };
}

/** Keeps an entry with what is left of its set; an entry with nothing left goes. */
function retain(entries: Map<string, ManagedEntry>, id: string, entry: ManagedEntry, set: FieldSet): void {
  if (set.size === 0) return;
  entries.set(id, set === entry.set ? entry : { ...entry, set, source: undefined });
}

function withManagedFields(object: DeepReadonly<KubernetesObject>, entries: ManagedEntries): KubernetesObject {
  const { managedFields: _, ...metadata } = object.metadata;
  const managedFields = encodeEntries(entries);
  return { ...object, metadata: managedFields === undefined ? metadata : { ...metadata, managedFields } } as KubernetesObject;
}

/**
 * Merges an applied configuration into an object (server-side apply, KEP-555): what it says is set and owned by the manager;
 * what the manager applied before, leaves out now, and nobody else owns is removed. Where the values agree, ownership is
 * shared.
 *
 * The caller has checked name, namespace, uid and resourceVersion of the configuration, and defaults and validates the
 * result. What the endpoint resets is not taken from the configuration.
 *
 * @param live the object before; undefined to create it.
 * @returns the object with its managedFields; `live` itself when nothing would change but times.
 *
 * **Errors.** {@link StatusError}: BadRequest for a configuration of another version or kind, with managedFields, or that does
 * not fit the schema; Conflict with a cause for each field that another manager owns with another value, unless `force`.
 */
export function applyConfiguration(
  live: DeepReadonly<KubernetesObject> | undefined,
  config: KubernetesObject,
  context: FieldManagementContext & { readonly force: boolean },
): KubernetesObject {
  checkConfiguration(live, config, context);
  const endpoint = endpointOf(context);
  const decoded = decodeEntries(live?.metadata.managedFields) ?? new Map<string, ManagedEntry>();
  const given: ManagedEntries =
    decoded.size === 0 && live !== undefined
      ? recordUpdate(undefined, live, decoded, beforeFirstApply, context, endpoint)
      : reconciled(decoded, endpoint.shape);
  const identity = identityOf(context.manager, "Apply", context, endpoint);
  const id = entryId(identity);
  const effective = effectiveConfiguration(live, config, endpoint);
  const applied = fieldsApplied(effective, config, endpoint);

  const others = [...given].filter(([other]) => other !== id).map(([, entry]) => entry.set);
  const last = given.get(id)?.set;
  const merged = live === undefined ? effective : mergeValues(live, effective, endpoint.shape);
  const result = (
    last === undefined ? merged : pruneDropped(merged, last, applied, others, endpoint.shape)
  ) as DeepReadonly<KubernetesObject>;

  const comparison = observed(compareValues(live ?? {}, result, endpoint.shape, endpoint), endpoint);
  const mayTake = (conflicts: readonly Conflict[]): readonly Conflict[] =>
    context.force
      ? []
      : context.manager === kubectlManager && live
        ? beyondLastApplied(conflicts, live, context, endpoint)
        : conflicts;
  const entries = new Map<string, ManagedEntry>();
  const conflicts: Conflict[] = [];
  for (const [other, entry] of given) {
    if (other === id) continue;
    const contested = intersection(entry.set, comparison.changed);
    if (contested.size > 0) conflicts.push(...conflictsOver(entry, contested));
    retain(entries, other, entry, difference(difference(entry.set, contested), comparison.removed));
  }
  if (conflicts.length > 0) {
    const refused = mayTake(conflicts);
    if (refused.length > 0) throw conflictError(refused);
  }

  const own = difference(applied, neverOwned);
  const previous = given.get(id);
  const isObjectSame = live !== undefined && comparison.changed.size === 0 && comparison.removed.size === 0 && result === live;
  const isOwnSame =
    previous === undefined ? own.size === 0 : previous.apiVersion === context.apiVersion && setsEqual(previous.set, own);
  if (own.size > 0) {
    entries.set(id, isOwnSame && isObjectSame && previous ? previous : { ...identity, time: context.time, set: own });
  }
  const areEntriesSame = decoded.size === entries.size && [...entries].every(([key, entry]) => decoded.get(key) === entry);
  if (live !== undefined && isObjectSame && areEntriesSame) return live as KubernetesObject;
  const object = withManagedFields(result, entries);
  return context.manager === kubectlManager ? withLastApplied(object, config) : object;
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

/** The configuration as far as it can change the object here: without what the endpoint resets and the server keeps. */
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
    const fields = fieldsOfConfig(effective, endpoint.shape);
    return differenceWithSubtrees(fields, resetFieldSet(endpoint.resetFields));
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    const name = `${config.metadata?.namespace ?? ""}/${config.metadata?.name ?? ""}; ${config.apiVersion}, Kind=${config.kind}`;
    throw statusError("BadRequest", `failed to create typed patch object (${name}): ${error.message}`);
  }
}

function reconciled(entries: ManagedEntries, shape: Shape): ManagedEntries {
  let result: Map<string, ManagedEntry> | undefined;
  for (const [id, entry] of entries) {
    const set = reconcileWithSchema(entry.set, shape);
    if (set === entry.set) continue;
    result ??= new Map(entries);
    result.set(id, { ...entry, set, source: undefined });
  }
  return result ?? entries;
}

/** Of the conflicts of `kubectl`, those that are not over what its client-side apply had set. */
function beyondLastApplied(
  conflicts: readonly Conflict[],
  live: DeepReadonly<KubernetesObject>,
  context: FieldManagementContext,
  endpoint: Endpoint,
): readonly Conflict[] {
  const allowed = fieldsLastApplied(live, context.apiVersion, endpoint.shape);
  return allowed === undefined ? conflicts : conflicts.filter(({ path }) => !hasPath(allowed, path));
}
