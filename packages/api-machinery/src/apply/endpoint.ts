import type { DeepReadonly } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import type { Schema } from "../schema/schema.ts";
import type { Comparison } from "./compare-values.ts";
import { differenceWithSubtrees, type FieldSet, fieldSet } from "../field-sets/field-set.ts";
import { encodeEntries, type ManagedEntries, type ManagedEntry } from "./managed-entries.ts";
import { fieldElement } from "../field-sets/path-element.ts";
import { type ResetFields, resetFieldSet, resetFieldsOf } from "./reset-fields.ts";
import { reconcileWithSchema } from "../field-sets/schema-fields.ts";
import { rootShapeOf, type Shape } from "../field-sets/shape.ts";
import type { Steps } from "../values/steps.ts";

/** The writer, the endpoint and the kind of a write. */
export interface FieldManagementContext {
  /** The schema of the kind in the version of the request. */
  readonly schema: Schema;
  /** The field manager; `""` is recorded as `unknown`. */
  readonly manager: string;
  /** The version of the request, such as `apps/v1`. */
  readonly apiVersion: string;
  /** The subresource of the request; absent or `""` for the object itself. */
  readonly subresource?: string;
  /** The current time: RFC 3339, whole seconds. */
  readonly time: string;
  /** Whether the kind has a status subresource, so that writes to the object itself do not change its status. */
  readonly hasStatus: boolean;
  /**
   * Whether the kind is built into Kubernetes rather than defined by a CRD. Default: whether its group is the core group, has
   * no dot, or ends in `.k8s.io`.
   */
  readonly isBuiltIn?: boolean;
  /**
   * The fields of an object that was created empty: those that Go always writes. A create does not own them while they have these values.
   * Default: none.
   */
  readonly emptyFields?: Readonly<Record<string, unknown>>;
  /** The fields that the endpoint resets before it stores; default: see `resetFieldsOf`. */
  readonly resetFields?: ResetFields;
}

/** Fields that are never owned: the object's identity and the metadata that the server sets. */
export const neverOwned = fieldSet(
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

/** A {@link FieldManagementContext} with everything derived from it. */
export interface Endpoint {
  readonly shape: Shape;
  readonly isBuiltIn: boolean;
  readonly resetFields: ResetFields;
  readonly subresource: string;
}

/** Derives the endpoint from a context. */
export function endpointOf(context: FieldManagementContext): Endpoint {
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

/** Removes managedFields, which no set may contain, and the fields that the endpoint resets. */
export function observed(comparison: Comparison, endpoint: Endpoint): Comparison {
  const reset = resetFieldSet(endpoint.resetFields);
  return {
    changed: differenceWithSubtrees(differenceWithSubtrees(comparison.changed, managedFieldsOnly), reset),
    removed: differenceWithSubtrees(differenceWithSubtrees(comparison.removed, managedFieldsOnly), reset),
  };
}

const managedFieldsOnly = fieldSet(["f:metadata", "f:managedFields"]);

/** Returns the identity of this request's entry. */
export function identityOf(
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

/** Keeps an entry with its remaining set; drops it if the set is empty. */
export function retain(entries: Map<string, ManagedEntry>, id: string, entry: ManagedEntry, set: FieldSet): void {
  if (set.size === 0) return;
  entries.set(id, set === entry.set ? entry : { ...entry, set, source: undefined });
}

/** Replaces the object's managed entries. */
export function* withManagedFields(object: DeepReadonly<KubernetesObject>, entries: ManagedEntries): Steps<KubernetesObject> {
  const managedFields = yield* encodeEntries(entries);
  // Copies first and changes then: literals that mix both are several times slower, and every write passes here.
  const metadata = { ...object.metadata } as KubernetesObject["metadata"];
  if (managedFields !== undefined) metadata.managedFields = managedFields;
  else if ("managedFields" in metadata) delete metadata.managedFields;
  const result = { ...object } as KubernetesObject;
  result.metadata = metadata;
  return result;
}

/** No entries. */
export const noEntries: ManagedEntries = new Map();

/** Reconciles entries with the current schema. */
export function reconciled(entries: ManagedEntries, shape: Shape): ManagedEntries {
  let result: Map<string, ManagedEntry> | undefined;
  for (const [id, entry] of entries) {
    const set = reconciledSet(entry.set, shape);
    if (set === entry.set) continue;
    result ??= new Map(entries);
    result.set(id, { ...entry, set, source: undefined });
  }
  return result ?? entries;
}

// Sets live as long as the FieldsV1 they were read from, which all versions of an object share until its owner changes it.
const reconciledSets = new WeakMap<FieldSet, { readonly shape: Shape; readonly set: FieldSet }>();

function reconciledSet(set: FieldSet, shape: Shape): FieldSet {
  const known = reconciledSets.get(set);
  if (known?.shape === shape) return known.set;
  const result = reconcileWithSchema(set, shape);
  reconciledSets.set(set, { shape, set: result });
  return result;
}
