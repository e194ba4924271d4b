import { isJsonObject } from "@keelson/api-machinery";
import { InvalidField } from "./task-fields.ts";

/** The variables of `env`. **Errors**: {@link InvalidField}. */
export function variables(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw new InvalidField("spec.env must be an object with string values");
  for (const [name, content] of Object.entries(value)) {
    if (name === "" || /[=\0]/.test(name)) {
      throw new InvalidField(`spec.env: ${JSON.stringify(name)} is not a valid variable name`);
    }
    if (typeof content !== "string" || content.includes("\0")) throw new InvalidField(`spec.env.${name} must be a string`);
  }
  return Object.fromEntries(Object.entries(value).map(([name, content]) => [name, String(content)]));
}

/** `K8S4R_META_<KEY>` for every entry of the metadata, in upper case, with `_` for what a variable name cannot contain. */
export function metaVariables(meta: unknown): Readonly<Record<string, string>> {
  if (!isJsonObject(meta)) return {};
  return Object.fromEntries(
    Object.entries(meta).flatMap(([key, value]) =>
      typeof value === "string" && !value.includes("\0")
        ? [[`K8S4R_META_${key.toUpperCase().replace(/[^A-Z0-9]/g, "_")}`, value]]
        : [],
    ),
  );
}
