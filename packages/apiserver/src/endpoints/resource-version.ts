import { badRequest } from "./errors.ts";

/** A `resourceVersion` parameter: undefined when unset, else a whole number. Throws `BadRequest`. */
export function parseResourceVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (!/^\d{1,15}$/.test(text))
    throw badRequest(`invalid resource version ${JSON.stringify(text)}: it must be a decimal number`);
  return Number(text);
}
