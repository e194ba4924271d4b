import type { JsonObject } from "../objects/json.ts";
import { objectMetaSchema } from "../schema/object-meta.ts";
import type { Schema } from "../schema/schema.ts";

/**
 * The parts of a {@link Schema} that field management needs: how a value is owned. A shape may allow several forms (without a
 * schema, all three), and the value decides.
 */
export interface Shape {
  readonly map: MapShape | undefined;
  readonly list: ListShape | undefined;
  readonly scalar: ScalarShape | undefined;
}

/** The required type of a scalar; `any` allows every type. */
export type ScalarShape = "string" | "number" | "boolean" | "any";

/** An object: declared fields, and the shape of other values (`element`; undefined: none allowed). */
export interface MapShape {
  /** The object is owned as a whole. */
  readonly isAtomic: boolean;
  readonly fields: ReadonlyMap<string, FieldShape>;
  readonly element: LazyShape | undefined;
}

/** A list. Without keys, an associative list is a set of scalars. */
export interface ListShape {
  /** The list is owned as a whole. */
  readonly isAtomic: boolean;
  /** Names of the keys, sorted; empty for a set. */
  readonly keys: readonly string[];
  /** Whether omitted keys are the empty values of their types. */
  readonly hasZeroKeys: boolean;
  readonly element: LazyShape;
}

/** A declared field. */
export interface FieldShape extends LazyShape {
  readonly default: unknown;
  /**
   * The value of an omitted field in the Go type of a built-in kind: an empty struct (if the field is not a pointer), or the empty
   * value of a required list or scalar. Undefined: none.
   */
  readonly zeroValue: { readonly [name: string]: unknown } | readonly never[] | string | number | boolean | undefined;
}

/** A shape that is resolved on first use, because schemas may be recursive. */
export interface LazyShape {
  readonly schema: Schema;
  readonly preservesUnknown: boolean;
  resolved: Shape | undefined;
}

/** The shape without a schema: objects by field, lists as a whole. */
export const deducedShape: Shape = {
  map: { isAtomic: false, fields: new Map(), element: { schema: {}, preservesUnknown: true, resolved: undefined } },
  list: { isAtomic: true, keys: [], hasZeroKeys: false, element: { schema: {}, preservesUnknown: true, resolved: undefined } },
  scalar: "any",
};

const shapes = new WeakMap<Schema, Shape>();
const preservingShapes = new WeakMap<Schema, Shape>();
const rootShapes = new WeakMap<Schema, Shape>();

/** Returns the shape of whole objects of a kind: its schema with the metadata that every object has. */
export function rootShapeOf(schema: Schema): Shape {
  let shape = rootShapes.get(schema);
  if (shape === undefined) {
    shape = buildShape({ ...schema, type: "object", "x-kubernetes-embedded-resource": true }, false);
    rootShapes.set(schema, shape);
  }
  return shape;
}

/** Resolves a {@link LazyShape}. */
export function resolveShape(lazy: LazyShape): Shape {
  lazy.resolved ??= shapeOf(lazy.schema, lazy.preservesUnknown);
  return lazy.resolved;
}

/** Returns the shape of the `name` field of an object. */
export function fieldShape(map: MapShape, name: string): Shape | undefined {
  const lazy = map.fields.get(name) ?? map.element;
  return lazy === undefined ? undefined : resolveShape(lazy);
}

function shapeOf(schema: Schema, preservesUnknown: boolean): Shape {
  const cache = preservesUnknown ? preservingShapes : shapes;
  let shape = cache.get(schema);
  if (shape === undefined) {
    shape = buildShape(schema, preservesUnknown);
    cache.set(schema, shape);
  }
  return shape;
}

function buildShape(schema: Schema, inheritsUnknown: boolean): Shape {
  const preservesUnknown = inheritsUnknown || schema["x-kubernetes-preserve-unknown-fields"] === true;
  const isEmbedded = schema["x-kubernetes-embedded-resource"] === true;
  if (schema["x-kubernetes-int-or-string"] === true) return scalarShape("any");
  switch (schema.type) {
    case "object":
      return { map: buildMap(schema, preservesUnknown, isEmbedded), list: undefined, scalar: undefined };
    case "array":
      return { map: undefined, list: buildList(schema, preservesUnknown), scalar: undefined };
    case "integer":
    case "number":
      return scalarShape("number");
    case "boolean":
      return scalarShape("boolean");
    case "string":
      return scalarShape(schema.format === undefined || schema.format === "" || schema.format === "byte" ? "string" : "any");
    default:
      if (schema.properties === undefined && !isEmbedded) return deducedShape;
      return { map: buildMap(schema, preservesUnknown, isEmbedded), list: undefined, scalar: undefined };
  }
}

const scalarShapes = {
  string: { map: undefined, list: undefined, scalar: "string" },
  number: { map: undefined, list: undefined, scalar: "number" },
  boolean: { map: undefined, list: undefined, scalar: "boolean" },
  any: { map: undefined, list: undefined, scalar: "any" },
} as const satisfies Record<ScalarShape, Shape>;

function scalarShape(scalar: ScalarShape): Shape {
  return scalarShapes[scalar];
}

function buildMap(schema: Schema, preservesUnknown: boolean, isEmbedded: boolean): MapShape {
  const fields = new Map<string, FieldShape>();
  const declare = (name: string, field: Schema): void => {
    const isRequired = schema.required?.includes(name) === true;
    fields.set(name, {
      schema: field,
      preservesUnknown,
      resolved: undefined,
      default: field.default,
      zeroValue: zeroValueOf(name, field, isRequired),
    });
  };
  for (const name of Object.keys(schema.properties ?? {})) {
    const field = schema.properties?.[name];
    if (field !== undefined) declare(name, field);
  }
  if (isEmbedded) {
    for (const name of ["apiVersion", "kind"]) if (!fields.has(name)) declare(name, { type: "string" });
    declare("metadata", objectMetaSchema);
  }
  const { additionalProperties } = schema;
  let element: LazyShape | undefined;
  if (typeof additionalProperties === "object") {
    element = { schema: additionalProperties, preservesUnknown, resolved: undefined };
  } else if (
    additionalProperties === true ||
    preservesUnknown ||
    (schema.properties === undefined && additionalProperties === undefined)
  ) {
    element = { schema: {}, preservesUnknown: true, resolved: deducedShape };
  }
  return { isAtomic: schema["x-kubernetes-map-type"] === "atomic", fields, element };
}

/** See {@link FieldShape.zeroValue}. */
function zeroValueOf(name: string, field: Schema, isRequired: boolean): FieldShape["zeroValue"] {
  const declared = field["x-go-zero-value"];
  if (declared !== undefined && (declared === null || field.type !== "object" || isGranularStruct(field)))
    return declared ?? undefined;
  if (isGranularStruct(field)) return isRequired || embeddedStructs.has(name) ? emptyStruct : undefined;
  if (!isRequired) return undefined;
  switch (field.type) {
    case "array":
      return emptyList;
    case "boolean":
      return false;
    case "integer":
    case "number":
      return 0;
    case "string":
      return field.format === undefined || field.format === "" ? "" : undefined;
    default:
      return undefined;
  }
}

const emptyStruct: JsonObject = Object.freeze({});
const emptyList: readonly never[] = Object.freeze([]);

/**
 * Optional fields that are structs, not pointers, in the Go types of the built-in kinds. Required ones always are. The API
 * server considers such a struct as present from the start, so writing into it does not make it owned.
 */
export const embeddedStructs: ReadonlySet<string> = new Set([
  "metadata",
  "spec",
  "status",
  "strategy",
  "updateStrategy",
  "resources",
  "loadBalancer",
  "acceptedNames",
  "source",
  "daemonEndpoints",
  "kubeletEndpoint",
  "nodeInfo",
]);

function isGranularStruct(schema: Schema): boolean {
  return schema.properties !== undefined && schema["x-kubernetes-map-type"] !== "atomic";
}

function buildList(schema: Schema, preservesUnknown: boolean): ListShape {
  const element: LazyShape = { schema: schema.items ?? {}, preservesUnknown, resolved: undefined };
  const type = schema["x-kubernetes-list-type"];
  const hasZeroKeys = schema["x-go-zero-keys"] === true;
  if (type === "set") return { isAtomic: false, keys: [], hasZeroKeys, element };
  if (type === "map") {
    const keys = [...(schema["x-kubernetes-list-map-keys"] ?? [])].sort();
    return { isAtomic: keys.length === 0, keys, hasZeroKeys, element };
  }
  // Old built-in kinds lack list types; their patch strategy says the same.
  if (type === undefined && schema["x-kubernetes-patch-strategy"]?.split(",").includes("merge")) {
    const key = schema["x-kubernetes-patch-merge-key"];
    return { isAtomic: false, keys: key === undefined ? [] : [key], hasZeroKeys, element };
  }
  return { isAtomic: true, keys: [], hasZeroKeys, element };
}
