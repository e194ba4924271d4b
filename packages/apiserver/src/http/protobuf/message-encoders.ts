import { isJsonObject, type JsonObject, type JsonValue } from "@keelson/api-machinery";
import type { BackwardWriter } from "./backward-writer.ts";
import { type Field, fieldsOf } from "./fields.ts";
import { encodeScalar, isScalar } from "./scalar-encoders.ts";

/** Writes the fields of an object, from the last to the first. */
export type MessageEncoder = (writer: BackwardWriter, object: Readonly<JsonObject>) => void;

const encoders = new Map<string, MessageEncoder>();
const nothing: Readonly<JsonObject> = {};

/** The encoder of a message, which is built on first use. Throws TypeError for an unknown message. */
export function encoderOf(message: string | undefined): MessageEncoder {
  const known = encoders.get(message ?? "");
  if (known !== undefined) return known;
  const fields = fieldsOf(message);
  if (message === undefined || fields === undefined) throw new TypeError(`unknown message ${message}`);
  // Registered before its fields, because a message can contain itself.
  let steps: readonly MessageEncoder[] | undefined;
  const encoder: MessageEncoder = (writer, object) => {
    steps ??= [...fields.values()].reverse().map(fieldEncoder);
    for (const step of steps) step(writer, object);
  };
  encoders.set(message, encoder);
  return encoder;
}

function fieldEncoder(field: Field): MessageEncoder {
  switch (field.shape) {
    case "inlined":
      return inlined(field);
    case "repeated":
      return repeated(field);
    case "map":
      return map(field);
    case "single":
      return single(field);
  }
}

/** Writes a value as a field, or the zero value of its type if it is absent. */
type ValueEncoder = (writer: BackwardWriter, number: number, value: JsonValue | undefined) => void;

function valueEncoder(type: string): ValueEncoder {
  if (isScalar(type)) return (writer, number, value) => encodeScalar[type](writer, number, value);
  if (type === "A" || type === "B" || type === "P") return (writer, number, value) => schemaOr(writer, number, type, value);
  const encode = encoderOf(type);
  return (writer, number, value) => {
    const start = writer.length;
    encode(writer, isJsonObject(value) ? value : nothing);
    writer.close(number, start);
  };
}

function inlined({ number, type }: Field): MessageEncoder {
  const encode = encoderOf(type);
  return (writer, object) => {
    const start = writer.length;
    encode(writer, object);
    writer.close(number, start);
  };
}

function single({ number, name, type, isPointer }: Field): MessageEncoder {
  const encode = valueEncoder(type);
  // A slice of bytes, like a pointer, can be nil.
  const canBeNil = isPointer || type === "y" || type === "l";
  return (writer, object) => {
    const value = object[name];
    if (value === undefined || value === null) {
      if (!canBeNil) encode(writer, number, undefined);
    } else encode(writer, number, value);
  };
}

function repeated({ number, name, type }: Field): MessageEncoder {
  const encode = valueEncoder(type);
  return (writer, object) => {
    const list = object[name];
    if (!Array.isArray(list)) return;
    for (let index = list.length - 1; index >= 0; index--) encode(writer, number, list[index] ?? undefined);
  };
}

function map({ number, name, type }: Field): MessageEncoder {
  const encode = valueEncoder(type);
  return (writer, object) => {
    const entries = object[name];
    if (!isJsonObject(entries)) return;
    const keys = sortedKeys(entries);
    for (let index = keys.length - 1; index >= 0; index--) {
      const key = keys[index] ?? "";
      const start = writer.length;
      const value = entries[key];
      if (type !== "y" || typeof value === "string") encode(writer, 2, value ?? undefined);
      writer.text(1, key);
      writer.close(number, start);
    }
  };
}

/** Keys in the order of their bytes in UTF-8. That of JavaScript differs for characters beyond the basic plane. */
function sortedKeys(entries: Readonly<JsonObject>): readonly string[] {
  const keys = Object.keys(entries);
  if (keys.length < 2) return keys;
  if (!keys.some((key) => /[\ud800-\udfff]/.test(key))) return keys.sort();
  return keys.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** A JSON schema (`JSONSchemaPropsOrBool` B, `OrArray` A, `OrStringArray` P) or what can replace it. */
function schemaOr(writer: BackwardWriter, number: number, type: "A" | "B" | "P", value: JsonValue | undefined): void {
  const start = writer.length;
  const schema = encoderOf("apiextensions.v1.JSONSchemaProps");
  const write = (at: number, object: Readonly<JsonObject>): void => {
    const from = writer.length;
    schema(writer, object);
    writer.close(at, from);
  };
  if (Array.isArray(value)) {
    for (const item of [...value].reverse()) {
      if (typeof item === "string") writer.text(2, item);
      else write(2, isJsonObject(item) ? item : nothing);
    }
  } else if (isJsonObject(value)) write(type === "B" ? 2 : 1, value);
  if (type === "B") {
    writer.unsigned(value === false || value === undefined ? 0 : 1);
    writer.tag(1, 0);
  }
  writer.close(number, start);
}
