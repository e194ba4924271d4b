import { StatusError } from "@keelson/api-machinery";
import type { Call } from "../call.ts";
import { badRequest } from "../errors.ts";

/** A body that is not JSON. Its `status` names no kind: the body is parsed before anything knows what it should be. */
export class UnreadableBodyError extends StatusError {
  /** Why it is not JSON, in the words of Go's parser. */
  readonly fault: string;
  /** The start of the body as kube-apiserver shows it. */
  readonly summary: string;

  constructor(fault: string, text: string) {
    super(badRequest(`the body of the request is not valid JSON: ${fault}`).status);
    this.fault = fault;
    this.summary = bodySummary(text);
  }
}

/** The error of a body that cannot be received. If it should be an object of a built-in kind, the error names the kind. */
export function receiveError({ resource, info }: Call, error: unknown): unknown {
  const isObject = info.verb === "create" || info.verb === "update";
  if (!(error instanceof UnreadableBodyError) || !isObject || resource.origin === "custom") return error;
  const kind = resource.subresources?.find(({ name }) => name === info.subresource)?.kind ?? resource.kind;
  return unrecognized(kind, `couldn't get version/kind; json parse error: ${error.fault}`, error.summary);
}

/** The `BadRequest` for a body that names no type. */
export function unrecognized(kind: string, why: string, summary: string): StatusError {
  return badRequest(`the object provided is unrecognized (must be of type ${kind}): ${why} (${summary})`);
}

const summaryLength = 30;

/** The start of a body as kube-apiserver shows it: an object as it is, anything else in hexadecimal. */
export function bodySummary(text: string): string {
  if (text === "") return "<empty>";
  const bytes = Buffer.from(text.slice(0, summaryLength + 1));
  const start = bytes.subarray(0, summaryLength);
  return `${text.startsWith("{") ? start.toString() : start.toString("hex")}${bytes.length > summaryLength ? " ..." : ""}`;
}
