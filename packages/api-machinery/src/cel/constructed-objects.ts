import type { JsonObject } from "../objects/json.ts";
import { CelError } from "./cel-error.ts";
import { celEngine } from "./engine.ts";

/** A value that an expression constructs by type name, such as `Object.spec{replicas: 3}`. */
export class ConstructedObject extends Map<string, unknown> {
  /** Instances of all subclasses have one: cel-js identifies a type by its class. */
  declare readonly typeName: string;
}

/** Creates the class of a type. Fields of an optional without a value are omitted. */
export function constructedType(typeName: string): {
  readonly type: typeof ConstructedObject;
  create(fields: unknown): unknown;
} {
  const type = class extends ConstructedObject {
    override readonly typeName: string = typeName;
  };
  return {
    type,
    create(fields) {
      const result = new type();
      const entries = fields instanceof Map ? [...fields] : Object.entries(fields ?? {});
      for (const [key, value] of entries as [string, unknown][]) addField(result, key, value);
      return result;
    },
  };
}

const patchFields = new Set(["op", "path", "from", "value"]);

function addField(object: ConstructedObject, key: string, value: unknown): void {
  const isOptional = key.startsWith("?");
  const name = isOptional ? key.slice(1) : key;
  if (object.typeName === "JSONPatch") {
    if (!patchFields.has(name)) throw new CelError("InvalidArgument", `unexpected JSONPatchType field: ${name}`);
  }
  if (!isOptional) {
    object.set(name, value);
    return;
  }
  if (!(value instanceof celEngine().Optional)) {
    throw new CelError("InvalidArgument", `cannot initialize optional entry '${name}' from non-optional value`);
  }
  if (value.hasValue()) object.set(name, value.value());
}

/**
 * Finds objects whose type name does not say where they are: a value below the `spec` field of an `Object` must be an `Object.spec`. Maps
 * and lists between them do not count. Returns messages as kube-apiserver's.
 */
export function typeNameFaults(value: unknown, path: string): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item) => typeNameFaults(item, path));
  if (!(value instanceof ConstructedObject)) {
    return value instanceof Map ? [...value.values()].flatMap((item) => typeNameFaults(item, path)) : plainFaults(value, path);
  }
  const { typeName } = value;
  const why = "which matches field name path from root Object type";
  const own = typeName === path ? [] : [`unexpected type name "${typeName}", expected "${path}", ${why}`];
  return [...own, ...[...value].flatMap(([name, field]) => typeNameFaults(field, `${path}.${name}`))];
}

function plainFaults(value: unknown, path: string): readonly string[] {
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return [];
  return Object.values(value).flatMap((item) => typeNameFaults(item, path));
}

/** Converts a CEL value to JSON. Throws a {@link CelError} if it has no JSON form. */
export function toJson(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value) || value instanceof Set) return [...value].map(toJson);
  if (value instanceof Map) return jsonObject([...(value as Map<unknown, unknown>)]);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (value instanceof Date) return value.toISOString().replace(/\.000Z$/, "Z");
  const { Duration, UnsignedInt } = celEngine();
  if (value instanceof Duration) return `${Number(value.seconds) + value.nanos / 1e9}s`;
  if (value instanceof UnsignedInt) return Number(value.valueOf());
  if (Object.getPrototypeOf(value) === Object.prototype) return jsonObject(Object.entries(value));
  throw new CelError("InvalidArgument", "the value has no JSON form");
}

function jsonObject(entries: readonly (readonly [unknown, unknown])[]): JsonObject {
  const result: JsonObject = {};
  for (const [key, value] of entries) {
    if (typeof key !== "string") throw new CelError("InvalidArgument", `map key ${String(key)} is not a string`);
    Object.defineProperty(result, key, { value: toJson(value), enumerable: true, writable: true, configurable: true });
  }
  return result;
}
