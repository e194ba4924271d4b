import type { Schema } from "@keelson/api-machinery/schema";
import { embeddedStructs } from "@keelson/api-machinery/server";
import { type Definition, type DefinitionField, definitionNameOfKind, definitionOf, isDefinitionName } from "./definition.ts";
import { descriptionOf } from "./descriptions.ts";

const schemas = new Map<string, Schema>();

/**
 * The schema of a built-in type by its short name (`core.v1.PodSpec`, `meta.v1.ObjectMeta`), always the same object.
 * Types are mutually recursive, so each of its `properties` is resolved on first access.
 *
 * Two formats are internal and not part of OpenAPI documents: a resource.Quantity is a string of format `quantity`, a MicroTime one of
 * format `micro-time`. See {@link canonicalValues}.
 */
export function builtinSchema(name: string): Schema {
  let schema = schemas.get(name);
  if (schema === undefined) {
    schema = schemaOf(definitionOf(name));
    schemas.set(name, schema);
  }
  return schema;
}

/**
 * The schema of a built-in kind, such as `builtinKindSchema("apps", "v1", "Deployment")`; undefined if it is not in the table. Properties are
 * resolved on first access. A quantity is a string of format `quantity`, although a manifest may contain a number.
 */
export function builtinKindSchema(group: string, version: string, kind: string): Schema | undefined {
  const name = definitionNameOfKind(group, version, kind);
  return name === undefined ? undefined : builtinSchema(name);
}

/** Types with facts beyond their definition. */
const special: Readonly<Record<string, Schema>> = {
  "apimachinery.api.resource.Quantity": { type: "string", format: "quantity" },
  "apimachinery.runtime.RawExtension": {
    type: "object",
    "x-kubernetes-preserve-unknown-fields": true,
    "x-kubernetes-map-type": "atomic",
  },
  "apimachinery.util.intstr.IntOrString": { "x-kubernetes-int-or-string": true },
  "apiextensions.v1.JSON": { "x-kubernetes-preserve-unknown-fields": true },
  "apiextensions.v1.JSONSchemaPropsOrArray": { "x-kubernetes-preserve-unknown-fields": true },
  "apiextensions.v1.JSONSchemaPropsOrBool": { "x-kubernetes-preserve-unknown-fields": true },
  "apiextensions.v1.JSONSchemaPropsOrStringArray": { "x-kubernetes-preserve-unknown-fields": true },
  "meta.v1.FieldsV1": { type: "object", "x-kubernetes-preserve-unknown-fields": true },
  "meta.v1.MicroTime": { type: "string", format: "micro-time", nullable: true },
  "meta.v1.Time": { type: "string", format: "date-time", nullable: true },
};

const scalars: Readonly<Record<string, Schema>> = {
  any: { "x-kubernetes-preserve-unknown-fields": true },
  boolean: { type: "boolean" },
  byte: { type: "string", format: "byte" },
  "date-time": { type: "string", format: "date-time", nullable: true },
  double: { type: "number", format: "double" },
  int32: { type: "integer", format: "int32" },
  int64: { type: "integer", format: "int64" },
  integer: { type: "integer" },
  number: { type: "number" },
  object: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
  string: { type: "string" },
};

/** Defaults of list-map keys: apply needs them to identify an item before defaulting. */
const keyDefaults: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "core.v1.ContainerPort": { protocol: "TCP" },
  "core.v1.ServicePort": { protocol: "TCP" },
};

function schemaOf(definition: Definition): Schema {
  const known = special[definition.name];
  if (known !== undefined) return Object.freeze(known);
  const required = definition.fields.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  const description = descriptionOf(definition.name);
  return Object.freeze({
    type: "object",
    ...(description === undefined ? {} : { description }),
    properties: lazyProperties(definition.fields, keyDefaults[definition.name] ?? {}),
    ...(required.length === 0 ? {} : { required }),
    ...(definition.mapType === undefined ? {} : { "x-kubernetes-map-type": definition.mapType }),
  } satisfies Schema);
}

/** An object whose properties are computed on first access. */
function lazyProperties(
  fields: readonly DefinitionField[],
  defaults: Readonly<Record<string, unknown>>,
): { readonly [name: string]: Schema } {
  const properties: Record<string, Schema> = {};
  for (const field of fields) {
    Object.defineProperty(properties, field.name, {
      enumerable: true,
      configurable: true,
      get(): Schema {
        const plain = fieldSchema(field);
        const value = Object.hasOwn(defaults, field.name) ? { ...plain, default: defaults[field.name] } : plain;
        Object.defineProperty(properties, field.name, { value, enumerable: true });
        return value;
      },
    });
  }
  return properties;
}

function fieldSchema(field: DefinitionField): Schema {
  const schema = typeSchema(field.type);
  const { listType, listMapKeys, mapType, patchStrategy, patchMergeKey } = field;
  const zeroValue = zeroValueOf(field);
  const facts = [listType, mapType, patchStrategy, patchMergeKey, zeroValue];
  if (facts.every((fact) => fact === undefined)) return schema;
  const own = {
    ...(zeroValue === undefined ? {} : { "x-go-zero-value": zeroValue }),
    ...(listType === undefined ? {} : { "x-kubernetes-list-type": listType }),
    ...(listMapKeys === undefined ? {} : { "x-kubernetes-list-map-keys": listMapKeys }),
    ...(listMapKeys === undefined && patchMergeKey === undefined ? {} : { "x-go-zero-keys": true }),
    ...(mapType === undefined ? {} : { "x-kubernetes-map-type": mapType }),
    ...(patchStrategy === undefined ? {} : { "x-kubernetes-patch-strategy": patchStrategy }),
    ...(patchMergeKey === undefined ? {} : { "x-kubernetes-patch-merge-key": patchMergeKey }),
  };
  // Copy descriptors, because a spread would call the getter of `items`. The field's own facts override
  // those of its type, whose properties may be read-only.
  const descriptors = { ...Object.getOwnPropertyDescriptors(schema), ...Object.getOwnPropertyDescriptors(own) };
  return Object.defineProperties({}, descriptors);
}

/**
 * The value of an omitted field where the schema does not tell: a struct that is not a pointer exists even if it is optional, and Go always
 * writes some optional texts, numbers and lists.
 */
function zeroValueOf({ name, type, encoding, isRequired }: DefinitionField): Schema["x-go-zero-value"] {
  if (isDefinitionName(type) && !Object.hasOwn(special, type)) {
    const isStruct = encoding !== "pointer" && encoding !== "omitzero";
    // A copy of the type's schema costs memory, so only what the schema does not suggest is said.
    if (isStruct === (isRequired || embeddedStructs.has(name))) return undefined;
    return isStruct ? {} : null;
  }
  if (encoding !== "always") return isRequired ? null : undefined;
  if (isRequired) return undefined;
  if (type.startsWith("[]")) return [];
  switch (type) {
    case "string":
      return "";
    case "int32":
    case "int64":
      return 0;
    default:
      return undefined;
  }
}

function typeSchema(type: string): Schema {
  if (type.startsWith("[]")) return withLazy({ type: "array" }, "items", type.slice(2));
  if (type.startsWith("{}")) return withLazy({ type: "object" }, "additionalProperties", type.slice(2));
  return scalars[type] ?? builtinSchema(type);
}

function withLazy(schema: Schema, key: "items" | "additionalProperties", type: string): Schema {
  let value: Schema | undefined;
  return Object.defineProperty({ ...schema }, key, {
    enumerable: true,
    configurable: true,
    get: () => (value ??= typeSchema(type)),
  });
}
