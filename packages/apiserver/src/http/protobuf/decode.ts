import { type JsonObject, type JsonValue, setOwn, statusError } from "@keelson/api-machinery";
import { type Field, fieldsOf } from "./fields.ts";
import { readFields, type WireField } from "./wire-format.ts";

/** What a protobuf body of Kubernetes begins with; an `Unknown` message that names the kind of its content follows. */
const magic = Buffer.from("k8s\0");

/**
 * Reads the body of a typed Go client: a built-in kind as protobuf, which such clients prefer since Kubernetes 1.32 without
 * asking whether it is understood. Answers are JSON, which they take as well.
 *
 * @throws StatusError `UnsupportedMediaType` for a kind that is not known in this form, `BadRequest` for a malformed body.
 */
export function decodeProtobuf(bytes: Uint8Array): JsonObject {
  if (bytes.length < magic.length || magic.compare(bytes, 0, magic.length) !== 0) {
    throw statusError("BadRequest", "the body of the request is not the protobuf of Kubernetes: it does not begin with k8s\\0");
  }
  try {
    return decodeUnknown(bytes.subarray(magic.length));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw statusError("BadRequest", `the body of the request is not valid protobuf: ${error.message}`);
  }
}

function decodeUnknown(bytes: Uint8Array): JsonObject {
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
  const name = messageName(apiVersion, kind);
  const fields = fieldsOf(name);
  if (fields === undefined) {
    throw statusError(
      "UnsupportedMediaType",
      `${kind || "an object without kind"} in version ${apiVersion || "(none)"} is not understood as protobuf: send application/json`,
    );
  }
  const object: JsonObject = { apiVersion, kind };
  decodeInto(object, fields, raw, 0);
  return object;
}

/** `apps/v1 Deployment` is `apps.v1.Deployment`; options of deletes are the same message in every group. */
function messageName(apiVersion: string, kind: string): string {
  if (kind === "DeleteOptions") return "meta.v1.DeleteOptions";
  const [group = "", version] = apiVersion.split("/");
  return version === undefined ? `core.${group}.${kind}` : `${group.split(".", 1)[0]}.${version}.${kind}`;
}

/** Messages of Kubernetes nest a dozen levels; JSONSchemaProps, the one that refers to itself, is not among those known. */
const maxDepth = 64;

function decodeInto(object: JsonObject, fields: ReadonlyMap<number, Field>, bytes: Uint8Array, depth: number): void {
  if (depth > maxDepth) throw new RangeError(`it nests deeper than ${maxDepth} levels`);
  for (const wire of readFields(bytes)) {
    const field = fields.get(wire.number);
    if (field === undefined) continue;
    const { name, type } = field;
    if (field.shape === "inlined") decodeInto(object, fieldsOf(type) ?? new Map(), wire.bytes, depth + 1);
    else if (field.shape === "repeated") {
      const list = Object.hasOwn(object, name) ? object[name] : undefined;
      const value = decodeValue(type, wire, depth) ?? null;
      if (Array.isArray(list)) list.push(value);
      else object[name] = [value];
    } else if (field.shape === "map") {
      const entries = Object.hasOwn(object, name) ? (object[name] as JsonObject) : {};
      let key = "";
      let value: JsonValue = type === "s" || type === "y" ? "" : {};
      for (const part of readFields(wire.bytes)) {
        if (part.number === 1) key = text(part);
        if (part.number === 2) value = decodeValue(type, part, depth) ?? null;
      }
      setOwn(entries, key, value);
      object[name] = entries;
    } else {
      const value = decodeValue(type, wire, depth);
      // Go writes every field that is no pointer, set or not; in JSON what is not set is left out.
      if (value === undefined || (!field.keepsZero && (value === "" || value === 0 || value === false))) continue;
      object[name] = value;
    }
  }
}

function decodeValue(type: string, wire: WireField, depth: number): JsonValue | undefined {
  switch (type) {
    case "s":
      return text(wire);
    case "i":
      return wire.integer;
    case "b":
      return wire.integer !== 0;
    case "d":
      return Buffer.from(wire.bytes).readDoubleLE(0);
    case "y":
      return Buffer.from(wire.bytes).toString("base64");
    case "q":
      return text(first(wire, 1));
    case "n":
      return first(wire, 1)?.integer === 1 ? text(first(wire, 3)) : (first(wire, 2)?.integer ?? 0);
    case "t":
      return timestamp(wire, (date) => `${date.toISOString().slice(0, 19)}Z`);
    case "T":
      return timestamp(wire, (date, nanos) => `${date.toISOString().slice(0, 19)}.${microseconds(nanos)}Z`);
    case "D":
      return `${(first(wire, 1)?.integer ?? 0) / 1e9}s`;
    case "r":
    case "f":
      return embeddedJson(first(wire, 1)?.bytes);
    case "l":
      return [...readFields(wire.bytes)].filter(({ number }) => number === 1).map(text);
    default: {
      const object: JsonObject = {};
      decodeInto(object, fieldsOf(type) ?? new Map(), wire.bytes, depth + 1);
      return object;
    }
  }
}

function first(wire: WireField, number: number): WireField | undefined {
  for (const field of readFields(wire.bytes)) if (field.number === number) return field;
  return undefined;
}

function text(wire: WireField | undefined): string {
  return wire === undefined ? "" : Buffer.from(wire.bytes.buffer, wire.bytes.byteOffset, wire.bytes.length).toString("utf8");
}

/** A time that is not set is an empty message. */
function timestamp(wire: WireField, format: (date: Date, nanos: number) => string): string | undefined {
  if (wire.bytes.length === 0) return undefined;
  const date = new Date((first(wire, 1)?.integer ?? 0) * 1000);
  if (Number.isNaN(date.getTime())) throw new RangeError("it has a time that no calendar has");
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
    throw new RangeError("it has an embedded object that is no JSON");
  }
}
