import { forbiddenCause, notSupportedCause, type StatusCause } from "@keelson/api-machinery/validation";
import type { Call } from "../call.ts";
import { invalidOptions } from "../errors.ts";

/** Checks `resourceVersionMatch` and `sendInitialEvents` of a list. Throws `Invalid`. */
export function requireListMatch(query: Call["query"], token: string): void {
  const match = query["resourceVersionMatch"] ?? "";
  const causes: StatusCause[] = [];
  const revision = query["resourceVersion"] ?? "";
  const field = "resourceVersionMatch";
  if (match !== "") {
    if (revision === "") {
      causes.push(forbiddenCause(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if (token !== "") causes.push(forbiddenCause(field, "resourceVersionMatch is forbidden when continue is provided"));
    if (match !== "Exact" && match !== "NotOlderThan") {
      causes.push(notSupportedCause(field, match, ["Exact", "NotOlderThan", ""]));
    }
    if (match === "Exact" && revision === "0") {
      causes.push(forbiddenCause(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'));
    }
  }
  if (query["sendInitialEvents"]) {
    causes.push(forbiddenCause("sendInitialEvents", "sendInitialEvents is forbidden for list"));
  }
  if (causes.length > 0) throw invalidOptions("ListOptions", ...causes);
}
