import { badRequest } from "../errors.ts";

/** A `resourceVersion` parameter: undefined when unset, else a whole number. Throws `BadRequest`. */
export function parseResourceVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (!/^\d{1,15}$/.test(text))
    throw badRequest(`invalid resource version ${JSON.stringify(text)}: it must be a decimal number`);
  return Number(text);
}

/** A whole number of the query, 0 where it is absent or empty. Throws `BadRequest` for anything else. */
export function integerOf(name: string, text: string | undefined): number {
  if (text === undefined || text === "") return 0;
  if (!/^[-+]?\d{1,15}$/.test(text)) {
    throw badRequest(`${name}: strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
  }
  return Number(text);
}
