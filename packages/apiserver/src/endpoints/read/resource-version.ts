import { unclassifiedError } from "@keelson/api-machinery/validation";
import { badRequest } from "../errors.ts";

/** Parses a `resourceVersion` parameter; undefined if unset. Throws `BadRequest` unless it is an integer. */
export function parseResourceVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (!/^\d{1,15}$/.test(text))
    throw badRequest(`invalid resource version ${JSON.stringify(text)}: it must be a decimal number`);
  return Number(text);
}

/** Parses the `resourceVersion` of a get or watch, where kube-apiserver does not classify the error of an invalid one. */
export function parseStartingVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === "" || /^\d{1,15}$/.test(text)) return parseResourceVersion(text);
  const shown = JSON.stringify(text);
  throw unclassifiedError(`resourceVersion: Invalid value: ${shown}: strconv.ParseUint: parsing ${shown}: invalid syntax`);
}

/** Parses an integer query parameter; 0 if absent. Throws `BadRequest` for anything else. */
export function integerOf(name: string, text: string | undefined): number {
  if (text === undefined) return 0;
  if (!/^[-+]?\d{1,15}$/.test(text)) {
    throw badRequest(`${name}: strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
  }
  return Number(text);
}
