import { isJsonObject, type JsonObject } from "@keelson/api-machinery";

/** A field has an invalid value. The message starts with the field. */
export class InvalidField extends Error {
  override readonly name = "InvalidField";
}

/** An own property. */
export const own = (object: JsonObject, field: string): unknown => (Object.hasOwn(object, field) ? object[field] : undefined);

/** An own property that is an object; an empty object if it is not. */
export const child = (object: JsonObject, field: string): JsonObject => {
  const value = own(object, field);
  return isJsonObject(value) ? value : {};
};

/** A string; undefined if it is empty. **Errors**: {@link InvalidField}. */
export function text(object: JsonObject, field: string, path: string): string | undefined {
  const value = own(object, field);
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value !== "string" || value.includes("\0")) throw new InvalidField(`${path}.${field} must be a string`);
  return value;
}

/** A list of strings. **Errors**: {@link InvalidField}. */
export function texts(value: unknown, path: string): readonly string[] {
  if (value === undefined || value === null) return [];
  const isValid = Array.isArray(value) && value.every((item) => typeof item === "string" && !item.includes("\0"));
  if (!isValid) throw new InvalidField(`${path} must be a list of strings`);
  return value;
}
