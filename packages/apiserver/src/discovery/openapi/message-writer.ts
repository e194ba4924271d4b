import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/** Writes a JSON value as the `number` field of a protobuf message. */
export type FieldWriter = (writer: BinaryWriter, number: number, value: unknown) => void;

/**
 * How a JSON object becomes a message of gnostic. A key is a field, else an extension, else an entry of the map; keys that are none of these
 * are omitted.
 */
export interface MessageShape {
  /** Fields by name in JSON. */
  readonly fields?: Readonly<Record<string, readonly [number: number, write: FieldWriter]>>;
  /** The repeated field of entries `{name = 1, value = 2}`. */
  readonly map?: readonly [number: number, write: FieldWriter];
  /** Number of the repeated field for `x-` extensions. */
  readonly extensions?: number;
}

/** Encodes a JSON object as a message. Throws TypeError if a value that must be an object is not one. */
export function encodeMessage(shape: MessageShape, value: unknown): Uint8Array {
  return message((writer) => writeMembers(writer, shape, value));
}

function writeMembers(writer: BinaryWriter, { fields = {}, map, extensions }: MessageShape, value: unknown): void {
  for (const [key, child] of Object.entries(asObject(value))) {
    // A keyword that is null is absent.
    if (child === null || child === undefined) continue;
    const field = Object.hasOwn(fields, key) ? fields[key] : undefined;
    if (field !== undefined) field[1](writer, field[0], child);
    else if (extensions !== undefined && key.startsWith("x-")) writeEntry(writer, extensions, key, anyValue, child);
    else if (map !== undefined) writeEntry(writer, map[0], key, map[1], child);
  }
}

function writeEntry(writer: BinaryWriter, number: number, name: string, write: FieldWriter, value: unknown): void {
  const entry = message((inner) => {
    text(inner, 1, name);
    write(inner, 2, value);
  });
  writeBytes(writer, number, entry);
}

/** `string` */
export const text: FieldWriter = (writer, number, value) => {
  writer.tag(number, WireType.LengthDelimited).string(String(value));
};

/** `bool` */
export const flag: FieldWriter = (writer, number, value) => {
  writer.tag(number, WireType.Varint).bool(value === true);
};

/** `int64` */
const integer: FieldWriter = (writer, number, value) => {
  writer.tag(number, WireType.Varint).int64(BigInt(Math.trunc(Number(value))));
};

/** `double` */
export const double: FieldWriter = (writer, number, value) => {
  writer.tag(number, WireType.Bit64).double(Number(value));
};

/** A message whose only field is `number`. */
export function wrapped(number: number, write: FieldWriter): FieldWriter {
  return (writer, outer, value) =>
    writeBytes(
      writer,
      outer,
      message((inner) => write(inner, number, value)),
    );
}

/** `Any { yaml = 2 }`. JSON is YAML. */
export const anyValue: FieldWriter = wrapped(2, (writer, number, value) => text(writer, number, JSON.stringify(value)));

/** A repeated field: one element for each item of a list. */
export function listOf(write: FieldWriter): FieldWriter {
  return (writer, number, value) => {
    for (const item of Array.isArray(value) ? value : [value]) write(writer, number, item);
  };
}

/** A nested message. `shape` is a function because messages contain themselves. */
export function messageOf(shape: () => MessageShape): FieldWriter {
  return (writer, number, value) => writeBytes(writer, number, encodeMessage(shape(), value));
}

/** A message `{ oneof { X = 1; bool boolean = 2 } }`. */
export function orFlag(write: FieldWriter): FieldWriter {
  return (writer, number, value) => (typeof value === "boolean" ? wrapped(2, flag) : wrapped(1, write))(writer, number, value);
}

/** Keywords of schemas whose numbers follow each other in the messages of both versions. */
const schemaKeywords: readonly (readonly [name: string, write: FieldWriter])[] = [
  ["multipleOf", double],
  ["maximum", double],
  ["exclusiveMaximum", flag],
  ["minimum", double],
  ["exclusiveMinimum", flag],
  ["maxLength", integer],
  ["minLength", integer],
  ["pattern", text],
  ["maxItems", integer],
  ["minItems", integer],
  ["uniqueItems", flag],
  ["maxProperties", integer],
  ["minProperties", integer],
  ["required", listOf(text)],
  ["enum", listOf(anyValue)],
];

/** The fields of these keywords, from the number `first` on. */
export function schemaFields(first: number): NonNullable<MessageShape["fields"]> {
  return Object.fromEntries(schemaKeywords.map(([name, write], index) => [name, [first + index, write] as const]));
}

/** Whether a JSON object is a reference to another part of the document. */
export function isReference(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.hasOwn(value, "$ref");
}

function writeBytes(writer: BinaryWriter, number: number, bytes: Uint8Array): void {
  writer.tag(number, WireType.LengthDelimited).bytes(bytes);
}

function message(write: (writer: BinaryWriter) => void): Uint8Array {
  const writer = new BinaryWriter();
  write(writer);
  return writer.finish();
}

function asObject(value: unknown): object {
  if (typeof value !== "object" || value === null)
    throw new TypeError(`invalid OpenAPI document: ${JSON.stringify(value)} must be an object`);
  return value;
}
