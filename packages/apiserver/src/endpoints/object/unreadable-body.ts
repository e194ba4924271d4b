import { StatusError } from "@keelson/api-machinery";
import { type Call, keyOf } from "../call.ts";
import { badRequest, notFound } from "../errors.ts";

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

/** The error of a body that cannot be received, in the words of the decoder that kube-apiserver uses for the request. */
export function receiveError(call: Call, error: unknown): unknown {
  if (!(error instanceof UnreadableBodyError)) return error;
  const { resource, info, request } = call;
  const fault = `couldn't get version/kind; json parse error: ${error.fault}`;
  switch (info.verb) {
    case "delete":
    case "deletecollection":
      return badRequest(fault);
    case "patch": {
      // A missing object is reported before a malformed patch.
      if (resource.provide === undefined && call.store.get(keyOf(call)) === undefined) return notFound(resource, info.name);
      const isMerge = request.headers?.["content-type"]?.startsWith("application/merge-patch") === true;
      return badRequest(isMerge ? `error decoding patch: ${error.fault}` : error.fault);
    }
    default: {
      if (resource.origin === "custom") return error;
      const kind = resource.subresources?.find(({ name }) => name === info.subresource)?.kind ?? resource.kind;
      return unrecognized(kind, fault, error.summary);
    }
  }
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
