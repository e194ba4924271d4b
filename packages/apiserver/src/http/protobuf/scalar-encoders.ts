import type { JsonValue } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import type { BackwardWriter } from "./backward-writer.ts";

/** The letters of scalars and well-known types. `generate-protobuf-fields.mjs` explains them. */
export type ScalarType = "s" | "i" | "b" | "d" | "y" | "q" | "n" | "t" | "T" | "r" | "f" | "l";

type ScalarEncoder = (writer: BackwardWriter, number: number, value: JsonValue | undefined) => void;

/** Writes a value of a type as a field. An absent value is the zero value in Go. A value of another type is a TypeError. */
export const encodeScalar: Readonly<Record<ScalarType, ScalarEncoder>> = {
  s: (writer, number, value) => writer.text(number, textOf(value)),
  i(writer, number, value) {
    writer.signed(numberOf(value));
    writer.tag(number, 0);
  },
  b(writer, number, value) {
    writer.unsigned(value === true ? 1 : 0);
    writer.tag(number, 0);
  },
  d(writer, number, value) {
    writer.double(numberOf(value));
    writer.tag(number, 1);
  },
  y(writer, number, value) {
    const start = writer.length;
    writer.raw(Buffer.from(textOf(value), "base64"));
    writer.close(number, start);
  },
  q: (writer, number, value) =>
    nested(writer, number, () =>
      writer.text(1, value === undefined ? "0" : typeof value === "number" ? String(value) : textOf(value)),
    ),
  n: (writer, number, value) =>
    nested(writer, number, () => {
      const isText = typeof value === "string";
      writer.text(3, isText ? value : "");
      writer.signed(isText ? 0 : numberOf(value));
      writer.tag(2, 0);
      writer.unsigned(isText ? 1 : 0);
      writer.tag(1, 0);
    }),
  t: (writer, number, value) => timestamp(writer, number, value, false),
  T: (writer, number, value) => timestamp(writer, number, value, true),
  r: embedded,
  f: embedded,
  l: (writer, number, value) =>
    nested(writer, number, () => {
      if (Array.isArray(value)) for (const item of [...value].reverse()) writer.text(1, textOf(item));
    }),
};

/** Whether a type is a scalar or a well-known type. */
export function isScalar(type: string): type is ScalarType {
  return Object.hasOwn(encodeScalar, type);
}

function nested(writer: BackwardWriter, number: number, write: () => void): void {
  const start = writer.length;
  write();
  writer.close(number, start);
}

function textOf(value: JsonValue | undefined): string {
  if (value === undefined) return "";
  if (typeof value !== "string") throw new TypeError(`${JSON.stringify(value)} is not a string`);
  return value;
}

function numberOf(value: JsonValue | undefined): number {
  if (value === undefined) return 0;
  if (typeof value !== "number") throw new TypeError(`${JSON.stringify(value)} is not a number`);
  return value;
}

/** 0001-01-01T00:00:00Z, the zero time of Go, which is encoded as an empty message. */
const zeroSeconds = -62_135_596_800;

/** A Time has whole seconds; a MicroTime has microseconds as well. */
function timestamp(writer: BackwardWriter, number: number, value: JsonValue | undefined, hasFraction: boolean): void {
  nested(writer, number, () => {
    const text = textOf(value);
    const ms = text === "" ? undefined : parseTime(text);
    if (ms === undefined) return;
    const seconds = Math.floor(ms / 1000);
    if (seconds === zeroSeconds) return;
    writer.unsigned(hasFraction ? nanoseconds(text) : 0);
    writer.tag(2, 0);
    writer.signed(seconds);
    writer.tag(1, 0);
  });
}

/** The fraction of a second in a time, in whole microseconds. */
function nanoseconds(time: string): number {
  const digits = /\.(\d{1,6})/.exec(time)?.[1] ?? "";
  return Number(digits.padEnd(6, "0")) * 1000;
}

/** A RawExtension, JSON or FieldsV1: the bytes of the value as JSON. */
function embedded(writer: BackwardWriter, number: number, value: JsonValue | undefined): void {
  nested(writer, number, () => {
    if (value === undefined) return;
    const start = writer.length;
    writer.raw(Buffer.from(JSON.stringify(value)));
    writer.close(1, start);
  });
}
