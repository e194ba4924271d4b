import { quoteText, unclassifiedError } from "@keelson/api-machinery/validation";
import { badRequest } from "../errors.ts";

/** Parses a `resourceVersion` parameter; undefined if unset. Throws `BadRequest` unless it is an integer. */
export function parseResourceVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  if (!/^\d{1,15}$/.test(text)) throw badRequest(`invalid resource version: ${versionFault(text)}`);
  return Number(text);
}

/** Parses the `resourceVersion` of a get or watch, where kube-apiserver does not classify the error of an invalid one. */
export function parseStartingVersion(text: string | undefined): number | undefined {
  if (text === undefined || text === "" || /^\d{1,15}$/.test(text)) return parseResourceVersion(text);
  throw unclassifiedError(versionFault(text));
}

function versionFault(text: string): string {
  const shown = quoteText(text);
  return `resourceVersion: Invalid value: ${shown}: strconv.ParseUint: parsing ${shown}: ${numberFault(text)}`;
}

/** What Go's parser says about a text that is not a number, or too large. */
function numberFault(text: string): string {
  return /^\d+$/.test(text) ? "value out of range" : "invalid syntax";
}

/** Parses an integer query parameter; 0 if absent. Throws `BadRequest` for anything else. */
export function integerOf(text: string | undefined): number {
  if (text === undefined) return 0;
  if (!/^[-+]?\d{1,15}$/.test(text)) {
    throw badRequest(`strconv.ParseInt: parsing ${quoteText(text)}: ${numberFault(text.replace(/^[-+]/, ""))}`);
  }
  return Number(text);
}
