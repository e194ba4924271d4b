import type { RegisterTypeDefinition } from "@marcbachmann/cel-js";
import type { Duration } from "@marcbachmann/cel-js/evaluator";
import { isJsonObject } from "../objects/json.ts";
import type { Schema } from "../schema/schema.ts";
import { celEngine } from "./engine.ts";

/** The part of an environment that types are declared to. */
export interface TypeRegistry {
  registerType(name: string, definition: RegisterTypeDefinition): unknown;
  registerOperator(signature: string, handler: (left: unknown, right: unknown) => unknown): unknown;
}

/** The CEL view of the values of a schema. */
export interface CelType {
  /** `int`, `list<string>`, or the name of a type registered with the environment. */
  readonly name: string;
  /** Converts a JSON value to CEL. The value must match the schema. */
  convert(value: unknown): unknown;
}

/**
 * Declares the objects of a schema to CEL and returns the type of its values (KEP-2876): integers are `int`, numbers
 * `double`, strings of the formats `date-time`, `date`, `duration` and `byte` have their own types, int-or-string is `dyn`.
 * `undefined` if the value has no type and is therefore hidden from CEL. Of an object's metadata, only `name` and
 * `generateName` are visible.
 */
export function declareCelType(environment: TypeRegistry, schema: Schema, isObjectRoot = false): CelType | undefined {
  if (schema["x-kubernetes-int-or-string"] === true) return dynamic;
  switch (schema.type) {
    case "boolean":
      return same("bool");
    case "string":
      return Object.hasOwn(formats, schema.format ?? "") ? formats[schema.format ?? ""] : same("string");
    case "integer":
      return { name: "int", convert: (value) => BigInt(Math.trunc(Number(value))) };
    case "number":
      return same("double");
    case "array":
      return listType(environment, schema);
    case "object":
      return objectType(environment, schema, isObjectRoot || schema["x-kubernetes-embedded-resource"] === true);
    default:
      return undefined;
  }
}

function same(name: string): CelType {
  return { name, convert: (value) => value };
}

/** Integers of an int-or-string are `int`, like those of a schema. */
const dynamic: CelType = {
  name: "dyn",
  convert: (value) => (typeof value === "number" && Number.isInteger(value) ? BigInt(value) : value),
};

const timestamp: CelType = { name: "google.protobuf.Timestamp", convert: (value) => new Date(String(value)) };

const formats: Readonly<Record<string, CelType>> = {
  "date-time": timestamp,
  date: timestamp,
  duration: { name: "google.protobuf.Duration", convert: (value) => durationOf(String(value)) },
  byte: { name: "bytes", convert: (value) => Uint8Array.from(Buffer.from(String(value), "base64")) },
};

const unitNanos: Readonly<Record<string, number>> = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 6e10, h: 3.6e12 };

/** A duration of Go: `1h30m`, `-1.5s`. */
function durationOf(text: string): Duration {
  let nanos = 0n;
  for (const [, amount = "0", unit = "s"] of text.matchAll(/(\d*\.?\d+|\d+\.)(ns|us|µs|ms|s|m|h)/g)) {
    const [whole = "0", fraction = ""] = amount.split(".");
    const size = unitNanos[unit] ?? 0;
    nanos += BigInt(whole || "0") * BigInt(size) + BigInt(Math.round(Number(`0.${fraction || "0"}`) * size));
  }
  if (text.startsWith("-")) nanos = -nanos;
  return new (celEngine().Duration)(nanos / 1_000_000_000n, Number(nanos % 1_000_000_000n));
}

function listType(environment: TypeRegistry, { items }: Schema): CelType | undefined {
  const item = items && declareCelType(environment, items);
  if (item === undefined) return undefined;
  return { name: `list<${item.name}>`, convert: (value) => (Array.isArray(value) ? value.map(item.convert) : []) };
}

function objectType(environment: TypeRegistry, schema: Schema, isObjectRoot: boolean): CelType | undefined {
  const { properties = {}, additionalProperties } = schema;
  if (typeof additionalProperties === "object" && Object.keys(properties).length === 0) {
    const child = declareCelType(environment, additionalProperties);
    if (child === undefined) return undefined;
    return {
      name: `map<string, ${child.name}>`,
      convert: (value) =>
        new Map(
          Object.entries(isJsonObject(value) ? value : {})
            .filter(([, entry]) => entry !== null)
            .map(([key, entry]) => [key, child.convert(entry)]),
        ),
    };
  }
  const fields = new Map<string, { readonly name: string; readonly type: CelType }>();
  for (const [key, property] of Object.entries(isObjectRoot ? withTypeMeta(properties) : properties)) {
    const name = celName(key);
    const type = declareCelType(environment, property);
    if (name !== undefined && type !== undefined) fields.set(key, { name, type });
  }
  return registerObject(environment, fields);
}

/** The fields of every object that CEL may see. */
function withTypeMeta(properties: Record<string, Schema> | Schema["properties"]): Record<string, Schema> {
  const text: Schema = { type: "string" };
  const metadata: Schema = { type: "object", properties: { name: text, generateName: text } };
  return { ...properties, apiVersion: text, kind: text, metadata };
}

let lastObject = 0;

function registerObject(
  environment: TypeRegistry,
  fields: ReadonlyMap<string, { readonly name: string; readonly type: CelType }>,
): CelType {
  lastObject += 1;
  const name = `Object${lastObject}`;
  // cel-js identifies the type of a value by its constructor, so each type needs its own class.
  const ObjectValue = class extends Map<string, unknown> {};
  environment.registerType(name, {
    ctor: ObjectValue,
    fields: Object.fromEntries([...fields.values()].map((field) => [field.name, field.type.name])),
  });
  environment.registerOperator(`${name} == ${name}`, celEquals);
  return {
    name,
    convert(value) {
      const result = new ObjectValue();
      if (!isJsonObject(value)) return result;
      for (const [key, field] of fields) {
        if (!Object.hasOwn(value, key)) continue;
        const child: unknown = value[key];
        if (child !== null && child !== undefined) result.set(field.name, field.type.convert(child));
      }
      return result;
    },
  };
}

/** Reserved words of CEL and its host languages. As fields they are escaped: `__namespace__`. */
export const reservedNames: ReadonlySet<string> = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);

/** Returns a property's name as written in CEL rules (KEP-2876); `undefined` if it cannot be written. */
function celName(property: string): string | undefined {
  if (reservedNames.has(property)) return `__${property}__`;
  const escaped = property
    .replaceAll("__", "__underscores__")
    .replaceAll(".", "__dot__")
    .replaceAll("-", "__dash__")
    .replaceAll("/", "__slash__");
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(escaped) ? escaped : undefined;
}

/** Reports whether two CEL values are deeply equal. */
export function celEquals(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (a instanceof Date && b instanceof Date) return a.getTime() === b.getTime();
  const { Duration } = celEngine();
  if (a instanceof Duration && b instanceof Duration) return a.seconds === b.seconds && a.nanos === b.nanos;
  if (a instanceof Map && b instanceof Map) {
    return a.size === b.size && [...a].every(([key, value]) => b.has(key) && celEquals(value, b.get(key)));
  }
  if ((Array.isArray(a) && Array.isArray(b)) || (a instanceof Uint8Array && b instanceof Uint8Array)) {
    return a.length === b.length && [...a].every((item, index) => celEquals(item, b[index]));
  }
  if (typeof a === "bigint" && typeof b === "number") return Number(a) === b;
  return typeof a === "number" && typeof b === "bigint" ? a === Number(b) : false;
}
