import type { JsonObject, JsonValue } from "@keelson/api-machinery";
import type { RandomSource } from "../../endpoints/random-source.ts";
import { type Field, fieldsOf } from "../../http/protobuf/fields.ts";

/** Below this depth, only what Go always encodes is generated. */
const maxDepth = 5;

/** An object with random fields of a message, as Go would write it in JSON. */
export function generateObject(message: string, random: RandomSource, depth = 0): JsonObject {
  const object: JsonObject = {};
  for (const field of fieldsOf(message)?.values() ?? []) {
    if (field.shape === "inlined") Object.assign(object, generateObject(field.type, random, depth + 1));
    else if (isAlwaysEncoded(field) || (depth < maxDepth && random.below(2) === 0)) {
      object[field.name] = generateField(field, random, depth);
    }
  }
  return object;
}

/** Whether JSON shows a field that is not set: a struct, or a scalar without `omitempty`. */
function isAlwaysEncoded({ shape, type, isPointer, keepsZero }: Field): boolean {
  if (shape !== "single" || isPointer) return false;
  return fieldsOf(type) !== undefined || type === "q" || (keepsZero && Object.hasOwn(zeros, type));
}

function generateField({ type, shape, keepsZero }: Field, random: RandomSource, depth: number): JsonValue {
  const value = (): JsonValue => generateValue(type, random, depth);
  if (shape === "repeated") return Array.from({ length: 1 + random.below(3) }, value);
  if (shape === "map")
    return Object.fromEntries(Array.from({ length: 1 + random.below(3) }, () => [textFrom(random), value()]));
  if (keepsZero && random.below(4) === 0) return zeros[type] ?? value();
  return value();
}

const zeros: Readonly<Record<string, JsonValue>> = { s: "", i: 0, b: false, d: 0, n: 0, q: "0" };
const texts = ["a", "kube", "ключ", "😀", "\u{ff5e}", "x".repeat(60), "ü".repeat(200), "line\nbreak"];

function textFrom(random: RandomSource): string {
  return `${texts[random.below(texts.length)]}${random.below(10)}`;
}

function integerFrom(random: RandomSource): number {
  const magnitude = 2 ** random.below(53) + random.below(100);
  return random.below(2) === 0 ? magnitude : -magnitude;
}

function timeFrom(random: RandomSource): string {
  // From 1904 to 2106.
  return new Date((random.below(2 ** 32) * 1.5 - 2 ** 31) * 1000).toISOString().slice(0, 19);
}

function generateValue(type: string, random: RandomSource, depth: number): JsonValue {
  switch (type) {
    case "s":
      return textFrom(random);
    case "i":
      return integerFrom(random);
    case "b":
      return true;
    case "d":
      return random.below(1_000_000) / 7 + 1;
    case "y":
      return Buffer.from(textFrom(random)).toString("base64");
    case "q":
      return `${1 + random.below(1_000)}${["", "m", "Ki", "G"][random.below(4)]}`;
    case "n":
      return random.below(2) === 0 ? integerFrom(random) : "25%";
    case "t":
      return `${timeFrom(random)}Z`;
    case "T":
      return `${timeFrom(random)}.${String(random.below(1_000_000)).padStart(6, "0")}Z`;
    case "r":
    case "f":
      return { [textFrom(random)]: [random.below(100), textFrom(random), null, { a: true }] };
    case "l":
      return [textFrom(random), textFrom(random)];
    case "B":
    case "A":
    case "P":
      return schemaOr(type, random, depth);
    default:
      return generateObject(type, random, depth + 1);
  }
}

function schemaOr(type: "A" | "B" | "P", random: RandomSource, depth: number): JsonValue {
  const schema = generateObject("apiextensions.v1.JSONSchemaProps", random, depth + 3);
  if (type === "B") return random.below(2) === 0 ? random.below(2) === 0 : schema;
  if (random.below(2) === 0) return schema;
  return type === "A" ? [schema] : [textFrom(random)];
}
