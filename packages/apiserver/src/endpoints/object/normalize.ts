import { type DeepReadonly, type JsonObject, type KubernetesObject, type ObjectMeta, setOwn } from "@keelson/api-machinery";
import type { StatusCause } from "@keelson/api-machinery/validation";
import {
  applyDefaults,
  createRuleEvaluator,
  groupSteps,
  prune,
  type Steps,
  unknownFieldMessages,
  validateInSteps,
} from "@keelson/api-machinery/server";
import { canonicalValues } from "../../registry/builtin/canonical-values.ts";
import { definitionNameOfKind, definitionOf } from "../../registry/builtin/definition.ts";
import { type Causes, collectInSteps } from "../../registry/causes.ts";
import { scaleCauses } from "../../registry/crd/scale-validation.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { Call } from "../call.ts";
import { decodeError } from "./decode-error.ts";
import { readEmbedded } from "./embedded-metadata.ts";
import { badRequest } from "../errors.ts";
import { takeSteps } from "../pause.ts";
import { writeNullLists } from "./null-lists.ts";
import { applyZeroValues } from "./zero-values.ts";
import { readMetadata, unqualifiedFinalizers, withoutRepeatedOwners } from "./metadata.ts";
import { changesStatusOnly, isFrozenValue, statusSchemaOf } from "../write/mutable-copy.ts";
import type { WriteOptions } from "../write/write-options.ts";

/** Objects and lists that are validated between two turns of the event loop: about a millisecond. */
const valuesPerStep = 200;

/** Options of {@link normalizeObject}. */
export interface NormalizeOptions extends Pick<WriteOptions, "fieldValidation"> {
  /** Whether the object is the result of an apply, where a null of a custom object is not absent. Default false. */
  readonly isApplied?: boolean;
}

/**
 * Brings an object into the form that is validated and stored: reads metadata, prunes unknown fields (and warns or fails according
 * to `fieldValidation`), sets defaults. Clients decode built-in kinds into Go structs, so null and empty lists and maps are
 * treated as absent, and a value of the wrong type is a `BadRequest`. Other schema violations are kept for {@link validationCauses}.
 *
 * Returns a promise only for a large object. Changes `object` in place except for frozen parts, which come from storage and are normalized already: managedFields and, in a
 * write to `status` that changes nothing else, all fields except metadata and status.
 */
export function normalizeObject(
  call: Call,
  object: KubernetesObject,
  options: NormalizeOptions,
): KubernetesObject | Promise<KubernetesObject> {
  return takeSteps(normalizeInSteps(call, object, options), call.load.bytes);
}

function* normalizeInSteps(call: Call, object: KubernetesObject, options: NormalizeOptions): Steps<KubernetesObject> {
  const { resource } = call;
  const isStatusAlone = call.info.subresource === "status" && changesStatusOnly(object);
  const schema = isStatusAlone ? statusSchemaOf(resource.schema) : resource.schema;
  const unknown: string[] = [];
  const managedFields = object.metadata?.managedFields;
  const isTracked = isFrozenValue(managedFields);
  const sent = isTracked ? withoutManagedFields(object.metadata) : object.metadata;
  const { metadata, warning } = withoutRepeatedOwners(readMetadata(sent, resource.kind, resource.version, unknown));
  if (warning !== undefined) call.warnings.add(warning);
  yield;
  const pruned = prune(schema, { ...object, metadata });
  unknown.push(...pruned.unknown);
  if (resource.origin === "custom") readEmbedded(schema, pruned.value, "", unknown);
  // kube-apiserver reports the fields of a custom object sorted, after those of its metadata.
  if (resource.origin === "custom") sortUnknown(unknown);
  reportUnknown(call, unknown, options);
  const result: KubernetesObject = { apiVersion: object.apiVersion, kind: object.kind, metadata };
  for (const [field, value] of Object.entries(pruned.value)) {
    if (!Object.hasOwn(result, field)) setOwn(result as unknown as JsonObject, field, value);
  }
  const name =
    resource.origin === "builtin" ? definitionNameOfKind(resource.group, resource.version, resource.kind) : undefined;
  if (resource.origin === "builtin") {
    yield;
    if (name !== undefined) yield* applyZeroValues(definitionOf(name), result as unknown as JsonObject, { isStatusAlone });
    yield;
    try {
      canonicalValues(schema, result);
    } catch (error) {
      throw badRequest(
        `${resource.kind} in version ${JSON.stringify(resource.version)} cannot be handled as a ${resource.kind}: ${error instanceof Error ? error.message : ""}`,
      );
    }
  }
  yield;
  applyDefaults(schema, result, { keepsNulls: resource.origin === "custom" && options.isApplied === true });
  call.schemaErrors.causes = [];
  if (resource.origin === "builtin") {
    yield;
    // Each kind's own rules report duplicate list items: they know the keys.
    const causes = (yield* groupSteps(validateInSteps(schema, result), valuesPerStep)).filter(
      ({ reason }) => reason !== "FieldValueDuplicate",
    );
    const wrongType = causes.find(({ reason }) => reason === "FieldValueTypeInvalid");
    if (wrongType !== undefined) throw decodeError(resource, result, wrongType.field ?? "");
    call.schemaErrors.causes = causes;
    // Runs after the type check so that a kind's defaults can rely on the types.
    const { strategy } = resource;
    (isStatusAlone ? strategy.status?.default : strategy.default)?.(result);
    if (name !== undefined) yield* writeNullLists(definitionOf(name), result as unknown as JsonObject);
  }
  if (isTracked && managedFields !== undefined) metadata.managedFields = managedFields;
  return result;
}

function withoutManagedFields(metadata: ObjectMeta): ObjectMeta {
  const { managedFields: _, ...others } = metadata;
  return others;
}

/** Validates a normalized object against its schema and its kind's own rules. `live` is the object it replaces. */
export function* validationCauses(
  call: Call,
  object: KubernetesObject,
  live: DeepReadonly<KubernetesObject> | undefined,
): Steps<readonly StatusCause[]> {
  const { resource, info } = call;
  const causes =
    resource.origin === "builtin"
      ? call.schemaErrors.causes.filter((cause) => isReported(cause, resource, info.subresource))
      : yield* groupSteps(
          validateInSteps(resource.schema, object, "", {
            rules: createRuleEvaluator(),
            ...(live === undefined ? {} : { oldValue: live }),
          }),
          valuesPerStep,
        );
  if (resource.origin === "custom") warnOfFinalizers(call, object, live);
  const { strategy } = resource;
  // A write to `status` leaves everything else as stored.
  const rules = info.subresource === "status" ? strategy.status?.validate : strategy.validate;
  const own = yield* newCauses(rules?.(object, live) ?? [], () => (live && rules?.(live, live)) ?? []);
  // A missing field is reported once: by the kind, which knows more, or else by the schema.
  const missing = new Set(own.filter(({ reason }) => reason === "FieldValueRequired").map(({ field }) => field));
  const remaining = causes.filter(({ reason, field }) => reason !== "FieldValueRequired" || !missing.has(field));
  const isScaled = resource.origin === "custom" && resource.scale !== undefined;
  return [...remaining, ...(isScaled ? scaleCauses(resource.scale, object, info.subresource === "status") : []), ...own];
}

/**
 * The causes that the stored object does not have yet. It may be older than a rule, and its metadata and finalizers must remain
 * updatable. `stored` runs only if there are causes.
 */
function* newCauses(causes: Causes, stored: () => Causes): Steps<readonly StatusCause[]> {
  const found = yield* collectInSteps(causes);
  if (found.length === 0) return found;
  const textOf = ({ reason, field, message }: StatusCause): string => JSON.stringify([reason, field, message]);
  const known = new Set((yield* collectInSteps(stored())).map(textOf));
  return found.filter((cause) => !known.has(textOf(cause)));
}

/** Adds the kind's own warnings about an object to the response. `old` is the object that an update replaces. */
export function addWarnings(
  { resource, warnings }: Call,
  object: KubernetesObject,
  old?: DeepReadonly<KubernetesObject>,
): void {
  for (const warning of resource.strategy.warnings?.(object, old) ?? []) warnings.add(warning);
}

function warnOfFinalizers(
  call: Call,
  object: DeepReadonly<KubernetesObject>,
  live: DeepReadonly<KubernetesObject> | undefined,
): void {
  const known = new Set(live?.metadata.finalizers);
  for (const name of unqualifiedFinalizers(object.metadata)) {
    if (known.has(name)) continue;
    const warning =
      `metadata.finalizers: ${JSON.stringify(name)}: prefer a domain-qualified finalizer name including a path (/) to avoid ` +
      "accidental conflicts with other finalizer writers";
    call.warnings.add(warning);
  }
}

/** Whether a schema violation is in the part of the object that this endpoint writes. */
function isReported(
  { field = "", reason }: StatusCause,
  { hasStatus }: Pick<ServedResource, "hasStatus">,
  subresource: string,
): boolean {
  // kube-apiserver has no schemas of built-in kinds: their own rules report missing fields.
  if (field.startsWith("metadata") || reason === "FieldValueRequired") return false;
  const isStatus = field === "status" || field.startsWith("status.");
  if (subresource === "status") return isStatus;
  return !(hasStatus && isStatus);
}

function sortUnknown(paths: string[]): void {
  const rank = (path: string): number => (path.startsWith("metadata.") ? 0 : 1);
  paths.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : a > b ? 1 : 0));
}

function reportUnknown(
  call: Call,
  unknown: readonly string[],
  { fieldValidation }: Pick<WriteOptions, "fieldValidation">,
): void {
  const { request, resource, info, warnings } = call;
  if (fieldValidation === "Ignore") return;
  const yaml = request.duplicateKeys ?? [];
  const messages = [...yaml, ...fieldMessages(call, unknown)];
  if (messages.length === 0) return;
  if (fieldValidation === "Strict") {
    const yamlError = yaml.length === 0 ? [] : [["yaml: unmarshal errors:", ...yaml].join("\n  ")];
    const reason = `strict decoding error: ${[...yamlError, ...messages.slice(yaml.length)].join(", ")}`;
    const { kind, version } = resource;
    const prefix = `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: `;
    throw badRequest(info.verb === "patch" ? reason : prefix + reason);
  }
  for (const message of messages) warnings.add(message);
}

/** Built-in kinds are decoded in one pass, so their faults are in the order of the text; of other kinds, duplicates are found first. */
function fieldMessages({ request, resource }: Call, unknown: readonly string[]): readonly string[] {
  const { fieldPositions } = request;
  // Built-in kinds are decoded into structs, which know no duplicates of unknown fields.
  const isStruct = resource.origin === "builtin" && unknown.length > 0;
  const unknownFields = new Set(isStruct ? unknown : []);
  const duplicateFields = (request.duplicateFields ?? []).filter((path) => !unknownFields.has(path));
  const duplicates = duplicateFields.map((path) => ({ path, message: `duplicate field ${JSON.stringify(path)}` }));
  const messages = unknownFieldMessages(unknown);
  if (resource.origin !== "builtin" || fieldPositions === undefined || messages.length !== unknown.length) {
    return [...duplicates.map(({ message }) => message), ...messages];
  }
  const position = ({ path }: { readonly path: string }): number => fieldPositions.get(path) ?? Number.POSITIVE_INFINITY;
  return [...duplicates, ...unknown.map((path, index) => ({ path, message: messages[index] ?? "" }))]
    .toSorted((a, b) => (position(a) === position(b) ? 0 : position(a) - position(b)))
    .map(({ message }) => message);
}
