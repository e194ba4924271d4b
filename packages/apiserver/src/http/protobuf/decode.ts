import { isJsonObject, type JsonObject, type JsonValue, setOwn, statusError } from "@keelson/api-machinery";
import { maxValues } from "../../endpoints/object/object-limits.ts";
import { tooManyValues } from "../body/body-limits.ts";
import { type Field, fieldsOf, messageName } from "./fields.ts";
import { readFields, type WireField } from "./wire-format.ts";

/** Maximum nesting. Kubernetes' messages nest about a dozen levels; a JSONSchemaProps refers to itself. */
const maxDepth = 128;

/** The prefix of a Kubernetes protobuf body. An `Unknown` message follows, which names the kind of its content. */
const magic = Buffer.from("k8s\0");

/**
 * Decodes a built-in kind from protobuf, the default request format of typed Go clients since Kubernetes 1.32.
 *
 * **Errors**: `UnsupportedMediaType` for a kind without a known message, `BadRequest` for a malformed body, `RequestEntityTooLarge`
 * for too many values.
 */
export function decodeProtobuf(bytes: Uint8Array): JsonObject {
  if (bytes.length < magic.length || magic.compare(bytes, 0, magic.length) !== 0) {
    throw statusError("BadRequest", "the body of the request is not Kubernetes protobuf: it does not start with k8s\\0");
  }
  try {
    return new MessageDecoder().decode(bytes.subarray(magic.length));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw statusError("BadRequest", `the body of the request is not valid protobuf: ${error.message}`);
  }
}

/** Decodes one body and enforces its limits. */
class MessageDecoder {
  #values = 0;

  /** Decodes an `Unknown` message. */
  decode(bytes: Uint8Array): JsonObject {
    let apiVersion = "";
    let kind = "";
    let raw: Uint8Array = new Uint8Array();
    for (const field of readFields(bytes)) {
      if (field.number === 1) {
        for (const part of readFields(field.bytes)) {
          if (part.number === 1) apiVersion = text(part);
          if (part.number === 2) kind = text(part);
        }
      } else if (field.number === 2) raw = field.bytes;
    }
    const fields = fieldsOf(messageName(apiVersion, kind));
    if (fields === undefined) {
      throw statusError(
        "UnsupportedMediaType",
        `${kind || "an object without a kind"} in version ${apiVersion || "(none)"} is not supported as protobuf: send application/json`,
      );
    }
    const object: JsonObject = { apiVersion, kind };
    this.#decodeInto(object, fields, raw, 0);
    return object;
  }

  #decodeInto(object: JsonObject, fields: ReadonlyMap<number, Field>, bytes: Uint8Array, depth: number): void {
    if (depth > maxDepth) throw new RangeError(`nested deeper than ${maxDepth} levels`);
    for (const wire of readFields(bytes)) {
      // Unknown fields count too: skipping them also takes time.
      if (++this.#values > maxValues) throw tooManyValues();
      const field = fields.get(wire.number);
      if (field !== undefined) this.#decodeField(object, field, wire, depth);
    }
  }

  #decodeField(object: JsonObject, { name, type, shape, keepsZero }: Field, wire: WireField, depth: number): void {
    if (shape === "inlined") this.#decodeInto(object, fieldsOf(type) ?? new Map(), wire.bytes, depth + 1);
    else if (shape === "repeated") {
      const list = Object.hasOwn(object, name) ? object[name] : undefined;
      const value = this.#decodeValue(type, wire, depth) ?? null;
      if (Array.isArray(list)) list.push(value);
      else object[name] = [value];
    } else if (shape === "map") this.#decodeEntry(object, name, type, wire, depth);
    else {
      const value = this.#decodeValue(type, wire, depth);
      // Go encodes zero values of fields that are not pointers. JSON omits them.
      if (value === undefined || (!keepsZero && (value === "" || value === 0 || value === false))) return;
      object[name] = value;
    }
  }

  #decodeEntry(object: JsonObject, name: string, type: string, wire: WireField, depth: number): void {
    const known = Object.hasOwn(object, name) ? object[name] : undefined;
    const entries = isJsonObject(known) ? known : {};
    let key = "";
    let value: JsonValue = type === "s" || type === "y" ? "" : {};
    for (const part of readFields(wire.bytes)) {
      if (part.number === 1) key = text(part);
      if (part.number === 2) value = this.#decodeValue(type, part, depth) ?? null;
    }
    setOwn(entries, key, value);
    object[name] = entries;
  }

  /** A JSON schema or, by field number and wire type: a boolean (1), a list of schemas (2) or a list of strings (2). */
  #decodeSchemaOr(type: string, wire: WireField, depth: number): JsonValue {
    let schema: JsonValue | undefined;
    let allows = false;
    const list: JsonValue[] = [];
    for (const part of readFields(wire.bytes)) {
      const isSchema = type === "B" ? part.number === 2 : part.number === 1;
      if (isSchema) schema = this.#decodeValue(schemaMessage, part, depth) ?? {};
      else if (type === "B") allows = part.integer !== 0;
      else list.push(this.#decodeValue(type === "A" ? schemaMessage : "s", part, depth) ?? null);
    }
    return schema ?? (type === "B" ? allows : list);
  }

  #decodeValue(type: string, wire: WireField, depth: number): JsonValue | undefined {
    const decode = scalars[type];
    if (decode !== undefined) return decode(wire);
    if (type === "A" || type === "B" || type === "P") return this.#decodeSchemaOr(type, wire, depth);
    const object: JsonObject = {};
    this.#decodeInto(object, fieldsOf(type) ?? new Map(), wire.bytes, depth + 1);
    return object;
  }
}

/** The message of a JSON schema. */
const schemaMessage = "apiextensions.v1.JSONSchemaProps";

/** Decoders of scalars and well-known types, by the letter that the generator assigns. */
const scalars: Readonly<Record<string, (wire: WireField) => JsonValue | undefined>> = {
  s: text,
  i: (wire) => wire.integer,
  b: (wire) => wire.integer !== 0,
  d: (wire) => Buffer.from(wire.bytes).readDoubleLE(0),
  y: (wire) => Buffer.from(wire.bytes).toString("base64"),
  q: (wire) => text(first(wire, 1)),
  n: (wire) => (first(wire, 1)?.integer === 1 ? text(first(wire, 3)) : (first(wire, 2)?.integer ?? 0)),
  t: (wire) => timestamp(wire, (date) => `${date.toISOString().slice(0, 19)}Z`),
  T: (wire) => timestamp(wire, (date, nanos) => `${date.toISOString().slice(0, 19)}.${microseconds(nanos)}Z`),
  D: (wire) => `${(first(wire, 1)?.integer ?? 0) / 1e9}s`,
  r: (wire) => embeddedJson(first(wire, 1)?.bytes),
  f: (wire) => embeddedJson(first(wire, 1)?.bytes),
  l: (wire) => [...readFields(wire.bytes)].filter(({ number }) => number === 1).map(text),
};

function first(wire: WireField, number: number): WireField | undefined {
  for (const field of readFields(wire.bytes)) if (field.number === number) return field;
  return undefined;
}

function text(wire: WireField | undefined): string {
  return wire === undefined ? "" : Buffer.from(wire.bytes.buffer, wire.bytes.byteOffset, wire.bytes.length).toString("utf8");
}

/** An unset time is an empty message. */
function timestamp(wire: WireField, format: (date: Date, nanos: number) => string): string | undefined {
  if (wire.bytes.length === 0) return undefined;
  const date = new Date((first(wire, 1)?.integer ?? 0) * 1000);
  if (Number.isNaN(date.getTime())) throw new RangeError("a time is out of range");
  return format(date, first(wire, 2)?.integer ?? 0);
}

function microseconds(nanos: number): string {
  return String(Math.floor(nanos / 1000)).padStart(6, "0");
}

function embeddedJson(bytes: Uint8Array | undefined): JsonValue | undefined {
  if (bytes === undefined || bytes.length === 0) return undefined;
  try {
    return JSON.parse(Buffer.from(bytes).toString("utf8")) as JsonValue;
  } catch {
    throw new RangeError("an embedded object is not valid JSON");
  }
}
