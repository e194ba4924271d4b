import { isJsonObject, setOwn } from "@keelson/api-machinery";
import { formatQuantity } from "@keelson/api-machinery/quantity";
import type { Schema } from "@keelson/api-machinery/schema";
import { formatMicroTime, formatTime } from "@keelson/api-machinery/time";
import { timeFault } from "./decode-faults.ts";

/**
 * Canonicalises quantities and times of a built-in object in place, as decoding and encoding would: the number
 * 1 becomes `"1"`, `1000m` becomes `1`, `0.5` becomes `500m`; times are in UTC, of whole seconds or (MicroTime) microseconds.
 *
 * **Errors**: throws a `RangeError` for an invalid quantity or MicroTime. Other values of the wrong type are
 * left to validation.
 */
export function canonicalValues(schema: Schema, value: unknown): void {
  if (Array.isArray(value)) {
    const { items } = schema;
    if (items === undefined) return;
    for (let index = 0; index < value.length; index++) {
      const write = writerOf(items);
      if (write === undefined) canonicalValues(items, value[index]);
      else value[index] = write(value[index]);
    }
    return;
  }
  if (!isJsonObject(value)) return;
  const { properties, additionalProperties } = schema;
  for (const key of Object.keys(value)) {
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const child = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (child === undefined) continue;
    const write = writerOf(child);
    if (write === undefined) canonicalValues(child, value[key]);
    else setOwn(value, key, write(value[key]));
  }
}

/** Functions that canonicalise values by format. */
const writers: ReadonlyMap<string, (value: unknown) => unknown> = new Map([
  ["quantity", canonicalQuantity],
  ["date-time", (value) => (typeof value === "string" ? canonicalTime(value) : value)],
  ["micro-time", (value) => (typeof value === "string" ? canonicalMicroTime(value) : value)],
]);

function canonicalQuantity(value: unknown): unknown {
  if (typeof value !== "string" && typeof value !== "number") return value;
  try {
    return formatQuantity(value);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // Go's decoder does not quote the value.
    throw new RangeError(error.message.replace(/^quantity (?:"(?:[^"\\]|\\.)*"): /, ""), { cause: error });
  }
}

function writerOf({ format }: Schema): ((value: unknown) => unknown) | undefined {
  return format === undefined ? undefined : writers.get(format);
}

const canonical = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
const microTime = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{6})(Z|[+-]\d\d:\d\d)$/;

function canonicalTime(text: string): string {
  if (canonical.test(text) || !time.test(text)) return text;
  const timeMs = Date.parse(text);
  return Number.isNaN(timeMs) ? text : formatTime(timeMs);
}

/** Go's decoder requires exactly six fractional digits. */
function canonicalMicroTime(text: string): string {
  const match = microTime.exec(text);
  const seconds = match === null ? Number.NaN : Date.parse(`${match[1]}${match[3]}`);
  if (Number.isNaN(seconds)) {
    throw new RangeError(timeFault(text, "microTime"));
  }
  return match?.[3] === "Z" ? text : formatMicroTime(seconds).replace(/\.\d+Z$/, `.${match?.[2] ?? ""}Z`);
}
