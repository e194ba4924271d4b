import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { quantityToBytes } from "@keelson/api-machinery/quantity";
import { parseDuration } from "@keelson/api-machinery/time";
import { RobotsError } from "../../robots-error.ts";

/* Reads the fields of a policy. **Errors**: `RobotsError` with the code `InvalidPolicy`, which names the field. */

/** Whether a path is absolute, without . or .. in it. */
export const isPlainPath = (path: string): boolean =>
  path.startsWith("/") && !path.split("/").some((part) => part === "." || part === "..");

/** An error that names a field and its value. `allowed` completes the sentence. */
export const invalid = (field: string, value: unknown, allowed: string): RobotsError =>
  new RobotsError("InvalidPolicy", `${field}: ${JSON.stringify(value)} ${allowed}`);

/** An object with these fields only. `name` is its field; empty for the policy itself. */
export function fields(value: unknown, name: string, allowed: readonly string[]): JsonObject {
  if (!isJsonObject(value)) throw new RobotsError("InvalidPolicy", `${name === "" ? "the policy" : name} must be an object`);
  const unknown = Object.keys(value).find((each) => !allowed.includes(each));
  if (unknown === undefined) return value;
  throw new RobotsError(
    "InvalidPolicy",
    `${name === "" ? "" : `${name}.`}${unknown} is not a known field; known are ${allowed.join(", ")}`,
  );
}

/** A list of texts that are not empty; undefined if there is none. */
export function names(value: unknown, field: string): readonly string[] | undefined {
  if (value === undefined) return undefined;
  if (!Array.isArray(value)) throw invalid(field, value, "must be a list of strings");
  return value.map((each: unknown) => {
    if (typeof each !== "string" || each === "") throw invalid(field, each, "must be a string");
    return each;
  });
}

/** A size in bytes. `name` is the field of the object. */
export function size(object: JsonObject, name: string, field: string, fallback: number): number {
  const value = object[field];
  if (value === undefined) return fallback;
  let bytes = Number.NaN;
  try {
    if (typeof value === "string" || typeof value === "number") bytes = quantityToBytes(value);
  } catch {
    // Reported below.
  }
  if (!Number.isSafeInteger(bytes) || bytes < 0) throw invalid(`${name}.${field}`, value, "must be a size such as 500Mi");
  return bytes;
}

/** A duration in milliseconds. `name` is the field of the object. */
export function duration(object: JsonObject, name: string, field: string, fallback: number): number {
  const value = object[field];
  if (value === undefined) return fallback;
  let ms = Number.NaN;
  try {
    if (typeof value === "string") ms = parseDuration(value);
  } catch {
    // Reported below.
  }
  if (!(ms > 0)) throw invalid(`${name}.${field}`, value, "must be a duration such as 10m");
  return ms;
}
