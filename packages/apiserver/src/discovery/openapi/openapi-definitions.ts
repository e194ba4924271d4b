import {
  type Definition,
  type DefinitionField,
  definitionNameOfKind,
  definitionOf,
  isDefinitionName,
  longName,
} from "../../registry/builtin/definition.ts";
import { commonFieldDescription, descriptionOf, metadataFieldDescription } from "../../registry/builtin/descriptions.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { customSchema } from "./custom-schema.ts";
import { knownGroupVersions } from "./known-group-versions.ts";
import type { Json, OpenApiVersion } from "./openapi-types.ts";

/** The schemas of an OpenAPI document by name, including everything they reference. */
export interface DefinitionSet {
  readonly version: OpenApiVersion;
  /** Whether it belongs to a document of custom kinds only. */
  readonly isOfCustomKinds?: boolean;
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
  // A struct that is not a pointer defaults to an empty object. OpenAPI 2 has no defaults.
  const isPublishedV3 = set.version === "v3" && resource.origin === "builtin";
  const listMetadata = isPublishedV3 ? { default: {} } : {};
  const item = fieldReference(set, name);
  set.schemas.set(definitionName(resource, "List"), {
    description: `A list of ${resource.kind} objects.`,
    type: "object",
    required: ["items"],
    properties: {
      apiVersion: { type: "string", description: commonFieldDescription("apiVersion") },
      items: { type: "array", items: isPublishedV3 ? { default: {}, allOf: [item] } : item },
      kind: { type: "string", description: commonFieldDescription("kind") },
      metadata: { ...listMetadata, ...describedReference(set, "meta.v1.ListMeta", "Metadata of the list.") },
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
    const required =
      definition.publishedRequired ?? definition.fields.filter(({ isRequired }) => isRequired).map((field) => field.name);
    if (required.length > 0) schema["required"] = required;
    schema["properties"] = propertiesOf(set, definition);
  }
  if (definition.mapType !== undefined) schema["x-kubernetes-map-type"] = definition.mapType;
  if (definition.groupVersionKind !== undefined) schema["x-kubernetes-group-version-kind"] = groupVersionKinds(set, definition);
  if (definition.unions !== undefined) schema["x-kubernetes-unions"] = definition.unions;
  return full;
}

/** Options and watch events belong to every group version that Kubernetes knows. */
function groupVersionKinds(
  { isOfCustomKinds = false }: DefinitionSet,
  { name, groupVersionKind }: Definition,
): readonly object[] {
  if (groupVersionKind === undefined) return [];
  if (name !== "meta.v1.DeleteOptions" && name !== "meta.v1.WatchEvent") return [groupVersionKind];
  return knownGroupVersions(isOfCustomKinds).map(({ group, version }) => ({ group, kind: groupVersionKind.kind, version }));
}

function propertiesOf(set: DefinitionSet, definition: Definition): Json {
  const properties: Json = {};
  for (const field of definition.fields) {
    const property = fieldSchema(set, field, definition);
    const text = definition.name === "meta.v1.ObjectMeta" ? metadataFieldDescription(field.name) : undefined;
    properties[field.name] = text === undefined ? property : { ...property, description: text };
  }
  return properties;
}

/** Definitions whose references, except that of `default`, have no description in Kubernetes. */
const withoutDescription: ReadonlySet<string> = new Set(["apiextensions.v1.JSONSchemaProps", "networking.v1.IngressRule"]);

function fieldSchema(set: DefinitionSet, field: DefinitionField, { name: owner, groupVersionKind }: Definition): Json {
  const schema = typeSchema(set, field.type, field.publishedValues);
  if (set.version === "v3") Object.assign(schema, defaultOf(field));
  const { name, listType, listMapKeys, mapType, patchStrategy, patchMergeKey } = field;
  if (groupVersionKind !== undefined && (name === "apiVersion" || name === "kind" || name === "metadata")) {
    schema["description"] = commonFieldDescription(name);
  }
  if (listType !== undefined) schema["x-kubernetes-list-type"] = listType;
  if (listMapKeys !== undefined) schema["x-kubernetes-list-map-keys"] = listMapKeys;
  if (mapType !== undefined) schema["x-kubernetes-map-type"] = mapType;
  if (patchStrategy !== undefined) schema["x-kubernetes-patch-strategy"] = patchStrategy;
  if (patchMergeKey !== undefined) schema["x-kubernetes-patch-merge-key"] = patchMergeKey;
  // OpenAPI 3.0 ignores siblings of $ref, such as descriptions, so that kube-apiserver wraps the reference.
  if (set.version === "v3" && "$ref" in schema && (name === "default" || !withoutDescription.has(owner))) {
    const { $ref, ...others } = schema;
    return { ...others, allOf: [{ $ref }] };
  }
  return schema;
}

/** The default of a field. Go's values other than pointers have one, unless they are omitted when they are empty. */
function defaultOf({ type, encoding, publishedDefault }: DefinitionField): Json {
  if (publishedDefault !== undefined) return publishedDefault === null ? {} : { default: publishedDefault };
  if (isStruct(type)) return encoding === "pointer" || encoding === "omitzero" ? {} : { default: {} };
  return encoding === "always" ? zeroDefault(type) : {};
}

/** The default of a Go value of this type. Lists, maps and bytes have none. */
function zeroDefault(type: string): Json {
  if (isStruct(type)) return { default: {} };
  switch (type) {
    case "string":
      return { default: "" };
    case "boolean":
      return { default: false };
    case "int32":
    case "int64":
    case "integer":
    case "number":
    case "double":
      return { default: 0 };
    default:
      return {};
  }
}

function isStruct(type: string): boolean {
  return isDefinitionName(type) && definitionOf(type).fields.length > 0;
}

const scalars: Readonly<Record<string, Json>> = {
  any: {},
  byte: { type: "string", format: "byte" },
  "date-time": { type: "string", format: "date-time" },
  double: { type: "number", format: "double" },
  int32: { type: "integer", format: "int32" },
  int64: { type: "integer", format: "int64" },
};

/** The schema of a type. `values` are the allowed values of the innermost type. */
function typeSchema(set: DefinitionSet, type: string, values: readonly unknown[] | undefined): Json {
  if (type.startsWith("[]")) return { type: "array", items: elementSchema(set, type.slice(2), values) };
  if (type.startsWith("{}")) return { type: "object", additionalProperties: elementSchema(set, type.slice(2), values) };
  if (isDefinitionName(type)) return builtinReference(set, type);
  return { ...(scalars[type] ?? { type }), ...(values === undefined ? {} : { enum: values }) };
}

/** Like kube-apiserver, elements of lists and maps have the default of their type in OpenAPI 3. */
function elementSchema(set: DefinitionSet, type: string, values: readonly unknown[] | undefined): Json {
  const schema = typeSchema(set, type, values);
  const { default: value } = set.version === "v3" ? zeroDefault(type) : {};
  if (value === undefined) return schema;
  return "$ref" in schema ? { default: value, allOf: [schema] } : { ...schema, default: value };
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
