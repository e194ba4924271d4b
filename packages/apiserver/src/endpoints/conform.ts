import {
  applyDefaults,
  type DeepReadonly,
  isJsonObject,
  type JsonObject,
  type KubernetesObject,
  prune,
  type Schema,
  type StatusCause,
  unknownFieldMessages,
  validate,
} from "@keelson/api-machinery";
import { canonicalQuantities } from "../registry/builtin/quantities.ts";
import type { Call } from "./call.ts";
import { badRequest } from "./errors.ts";
import { readMetadata } from "./metadata.ts";
import type { WriteOptions } from "./write-options.ts";

/**
 * The form of an object that goes on: metadata read, unknown fields dropped (and told or refused, as `fieldValidation` says),
 * defaults set. Built-in kinds are Go structs to their clients: null and empty lists and maps are absent there, and a value of the
 * wrong type can't be decoded (`BadRequest`). What else the schema finds wrong is kept for {@link validationCauses}.
 */
export function conform(
  call: Call,
  object: KubernetesObject,
  options: Pick<WriteOptions, "fieldValidation">,
): KubernetesObject {
  const { resource } = call;
  const unknown: string[] = [];
  const metadata = readMetadata(object.metadata, resource.kind, resource.version, unknown);
  const pruned = prune(resource.schema, { ...object, metadata });
  unknown.push(...pruned.unknown);
  report(call, unknown, options);
  const { apiVersion: _version, kind: _kind, metadata: _metadata, ...rest } = pruned.value;
  const result = { apiVersion: object.apiVersion, kind: object.kind, metadata, ...rest } as KubernetesObject;
  if (resource.origin === "builtin") {
    dropEmpty(resource.schema, result as unknown as JsonObject, true);
    try {
      canonicalQuantities(resource.schema, result);
    } catch (error) {
      throw badRequest(
        `${resource.kind} in version ${JSON.stringify(resource.version)} cannot be handled as a ${resource.kind}: ${error instanceof Error ? error.message : ""}`,
      );
    }
  }
  applyDefaults(resource.schema, result);
  call.schemaFaults.causes = [];
  if (resource.origin === "builtin") {
    // Items twice in a list are for each kind's own rules to tell, which know them by other keys.
    const causes = validate(resource.schema, result).filter(({ reason }) => reason !== "FieldValueDuplicate");
    const wrongType = causes.find(({ reason }) => reason === "FieldValueTypeInvalid");
    if (wrongType !== undefined) {
      const version = JSON.stringify(resource.version);
      const detail = `${wrongType.field ?? ""}: ${wrongType.message ?? ""}`;
      throw badRequest(`${resource.kind} in version ${version} cannot be handled as a ${resource.kind}: ${detail}`);
    }
    call.schemaFaults.causes = causes;
    // After the types are known to be right, so that a kind's defaults can rely on them.
    resource.strategy.default?.(result);
  }
  return result;
}

/** What is wrong with an object that was conformed, by its schema and its kind's own rules. `live` is what it replaces. */
export function validationCauses(
  call: Call,
  object: KubernetesObject,
  live: DeepReadonly<KubernetesObject> | undefined,
): readonly StatusCause[] {
  const { resource, info } = call;
  const causes =
    resource.origin === "builtin"
      ? call.schemaFaults.causes.filter((cause) => counts(cause, resource.hasStatus, info.subresource))
      : validate(resource.schema, object, "", live === undefined ? {} : { oldValue: live });
  return [...causes, ...(resource.strategy.validate?.(object) ?? [])];
}

/** Of what the request brought, only the part that its endpoint takes is worth a complaint. */
function counts({ field = "" }: StatusCause, hasStatus: boolean, subresource: string): boolean {
  if (field.startsWith("metadata")) return false;
  const isStatus = field === "status" || field.startsWith("status.");
  if (subresource === "status") return isStatus;
  return !(hasStatus && isStatus);
}

function report(call: Call, unknown: readonly string[], { fieldValidation }: Pick<WriteOptions, "fieldValidation">): void {
  if (fieldValidation === "Ignore") return;
  const duplicates = (call.request.duplicateFields ?? []).map((path) => `duplicate field ${JSON.stringify(path)}`);
  const messages = [...duplicates, ...unknownFieldMessages(unknown)];
  if (messages.length === 0) return;
  if (fieldValidation === "Strict") throw badRequest(`strict decoding error: ${messages.join(", ")}`);
  for (const message of messages) if (!call.warnings.includes(message)) call.warnings.push(message);
}

/** Removes null, and empty lists and maps that are not required, from a value of a built-in kind, in place. */
function dropEmpty(schema: Schema, value: JsonObject, isRoot = false): void {
  const { properties, additionalProperties, required = [] } = schema;
  for (const key of Object.keys(value)) {
    const child = value[key];
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const childSchema = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (isRoot && key === "metadata") continue;
    if (child === null) {
      if (childSchema?.type !== undefined) delete value[key];
    } else if (Array.isArray(child)) {
      if (child.length === 0 && own?.type === "array" && !required.includes(key)) delete value[key];
      else if (childSchema?.items) for (const item of child) if (isJsonObject(item)) dropEmpty(childSchema.items, item);
    } else if (isJsonObject(child) && childSchema !== undefined) {
      const isMap = own !== undefined && own.additionalProperties !== undefined && own.properties === undefined;
      if (isMap && Object.keys(child).length === 0 && !required.includes(key)) delete value[key];
      else dropEmpty(childSchema, child);
    }
  }
}
