import {
  type DefinitionField,
  definitionNameOfKind,
  definitionOf,
  isDefinitionName,
  longName,
} from "../../registry/builtin/definition.ts";
import { commonFieldDescription, descriptionOf, metadataFieldDescription } from "../../registry/builtin/descriptions.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { customSchema } from "./custom-schema.ts";
import type { Json, OpenApiVersion } from "./openapi-types.ts";

/** The schemas of an OpenAPI document by name, including everything they reference. */
export interface DefinitionSet {
  readonly version: OpenApiVersion;
  readonly schemas: Map<string, Json>;
}

/** The name of a kind's schema: `io.k8s.api.core.v1.Pod`, or `com.example.v1.Widget` for a custom kind. */
export function definitionName(resource: Pick<ServedResource, "group" | "version" | "kind" | "origin">, suffix = ""): string {
  const { group, version, kind } = resource;
  const builtin = resource.origin === "builtin" ? definitionNameOfKind(group, version, kind) : undefined;
  if (builtin !== undefined) return longName(builtin) + suffix;
  return `${[...group.split(".").reverse(), version, kind].filter((part) => part !== "").join(".")}${suffix}`;
}

/** A reference to a schema. */
export function reference(version: OpenApiVersion, name: string): Json {
  return { $ref: `${version === "v2" ? "#/definitions/" : "#/components/schemas/"}${name}` };
}

/** Adds a kind, its list, and everything they reference. */
export function addKind(set: DefinitionSet, resource: ServedResource): void {
  const name = definitionName(resource);
  const builtin =
    resource.origin === "builtin" ? definitionNameOfKind(resource.group, resource.version, resource.kind) : undefined;
  if (builtin !== undefined) addDefinition(set, builtin);
  else set.schemas.set(name, customKind(set, resource));
  if (!resource.verbs.includes("list")) return;
  set.schemas.set(definitionName(resource, "List"), {
    description: `A list of ${resource.kind} objects.`,
    type: "object",
    required: ["items"],
    properties: {
      apiVersion: { type: "string", description: commonFieldDescription("apiVersion") },
      items: { type: "array", items: fieldReference(set, name) },
      kind: { type: "string", description: commonFieldDescription("kind") },
      metadata: describedReference(set, "meta.v1.ListMeta", "Metadata of the list."),
    },
    "x-kubernetes-group-version-kind": [{ group: resource.group, kind: resource.listKind, version: resource.version }],
  });
}

/** Adds a built-in definition by its short name and everything it references. Returns its full name. */
export function addDefinition(set: DefinitionSet, name: string): string {
  const full = longName(name);
  if (set.schemas.has(full)) return full;
  const schema: Json = {};
  set.schemas.set(full, schema);
  const definition = definitionOf(name);
  const description = descriptionOf(name);
  if (description !== undefined) schema["description"] = description;
  if (name === "apimachinery.util.intstr.IntOrString") {
    schema["format"] = "int-or-string";
    if (set.version === "v2") schema["type"] = "string";
    else schema["oneOf"] = [{ type: "integer" }, { type: "string" }];
    return full;
  }
  if (name === "apimachinery.api.resource.Quantity" && set.version === "v3") {
    schema["oneOf"] = [{ type: "string" }, { type: "number" }];
    return full;
  }
  if (definition.fields.length === 0) {
    if (definition.type !== undefined) schema["type"] = definition.type;
    if (definition.format !== undefined) schema["format"] = definition.format;
  } else {
    schema["type"] = "object";
    const required = definition.fields.filter(({ isRequired }) => isRequired).map((field) => field.name);
    if (required.length > 0) schema["required"] = required;
    const properties: Json = {};
    for (const field of definition.fields) {
      const property = fieldSchema(set, field, definition.groupVersionKind !== undefined);
      const text = name === "meta.v1.ObjectMeta" ? metadataFieldDescription(field.name) : undefined;
      properties[field.name] = text === undefined ? property : { ...property, description: text };
    }
    schema["properties"] = properties;
  }
  if (definition.mapType !== undefined) schema["x-kubernetes-map-type"] = definition.mapType;
  if (definition.groupVersionKind !== undefined) schema["x-kubernetes-group-version-kind"] = [definition.groupVersionKind];
  return full;
}

function fieldSchema(set: DefinitionSet, field: DefinitionField, isKind: boolean): Json {
  const schema = typeSchema(set, field.type);
  const { name, listType, listMapKeys, mapType, patchStrategy, patchMergeKey } = field;
  if (isKind && (name === "apiVersion" || name === "kind" || name === "metadata")) {
    schema["description"] = commonFieldDescription(name);
  }
  if (listType !== undefined) schema["x-kubernetes-list-type"] = listType;
  if (listMapKeys !== undefined) schema["x-kubernetes-list-map-keys"] = listMapKeys;
  if (mapType !== undefined) schema["x-kubernetes-map-type"] = mapType;
  if (patchStrategy !== undefined) schema["x-kubernetes-patch-strategy"] = patchStrategy;
  if (patchMergeKey !== undefined) schema["x-kubernetes-patch-merge-key"] = patchMergeKey;
  // OpenAPI 3.0 ignores siblings of $ref, so the reference is wrapped in an allOf.
  if (set.version === "v3" && "$ref" in schema && Object.keys(schema).length > 1) {
    const { $ref, ...others } = schema;
    return { ...others, allOf: [{ $ref }] };
  }
  return schema;
}

const scalars: Readonly<Record<string, Json>> = {
  any: {},
  byte: { type: "string", format: "byte" },
  "date-time": { type: "string", format: "date-time" },
  double: { type: "number", format: "double" },
  int32: { type: "integer", format: "int32" },
  int64: { type: "integer", format: "int64" },
};

function typeSchema(set: DefinitionSet, type: string): Json {
  if (type.startsWith("[]")) return { type: "array", items: itemSchema(set, typeSchema(set, type.slice(2)), type.slice(2)) };
  if (type.startsWith("{}")) return { type: "object", additionalProperties: typeSchema(set, type.slice(2)) };
  if (isDefinitionName(type)) return builtinReference(set, type);
  return { ...(scalars[type] ?? { type }) };
}

/** Like kube-apiserver, items that are structs default to an empty object in OpenAPI 3. */
function itemSchema(set: DefinitionSet, schema: Json, type: string): Json {
  const isStruct = isDefinitionName(type) && definitionOf(type).fields.length > 0;
  return set.version === "v3" && isStruct ? { default: {}, allOf: [schema] } : schema;
}

function builtinReference(set: DefinitionSet, name: string): Json {
  return fieldReference(set, addDefinition(set, name));
}

/** A reference with a description. OpenAPI 3.0 ignores siblings of $ref. */
function describedReference(set: DefinitionSet, name: string, description: string): Json {
  const target = builtinReference(set, name);
  return set.version === "v3" ? { description, allOf: [target] } : { ...target, description };
}

function fieldReference(set: DefinitionSet, name: string): Json {
  return reference(set.version, name);
}

/** The fields that every object has. */
function objectFields(set: DefinitionSet): Json {
  return {
    apiVersion: { description: commonFieldDescription("apiVersion"), type: "string" },
    kind: { description: commonFieldDescription("kind"), type: "string" },
    metadata: describedReference(set, "meta.v1.ObjectMeta", commonFieldDescription("metadata")),
  };
}

function customKind(set: DefinitionSet, resource: ServedResource): Json {
  const groupVersionKind = [{ group: resource.group, kind: resource.kind, version: resource.version }];
  // Clients that validate with OpenAPI 2 would reject unknown fields next to specified ones.
  if (set.version === "v2" && resource.schema["x-kubernetes-preserve-unknown-fields"] === true) {
    return { type: "object", "x-kubernetes-group-version-kind": groupVersionKind };
  }
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...own } = resource.schema.properties ?? {};
  const fields = objectFields(set);
  const schema = customSchema({ ...resource.schema, properties: own }, { version: set.version, objectFields: fields });
  return {
    ...schema,
    properties: { ...fields, ...Object(schema["properties"]) },
    "x-kubernetes-group-version-kind": groupVersionKind,
  };
}
