import { type StatusError, statusError } from "@keelson/api-machinery";
import { maxValues } from "../../endpoints/object/object-limits.ts";

/** Maximum size of a request body. Same as kube-apiserver. */
export const maxBodyBytes = 3 * 1024 * 1024;

/** Maximum nesting of objects and lists in a body. No kind needs a tenth of it, and recursive code can handle it. */
export const maxDepth = 512;

/** The body exceeds {@link maxBodyBytes}. */
export function tooLarge(): StatusError {
  return statusError("RequestEntityTooLarge", `Request entity too large: limit is ${maxBodyBytes}`);
}

/** The body exceeds {@link maxValues}. */
export function tooManyValues(): StatusError {
  return statusError("RequestEntityTooLarge", `the body of the request has more than ${maxValues} values`);
}

/** The body exceeds {@link maxDepth}. */
export function tooDeep(): StatusError {
  return statusError("BadRequest", `the body of the request nests deeper than ${maxDepth} levels`);
}
