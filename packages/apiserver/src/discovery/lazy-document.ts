import { createHash } from "node:crypto";
import type { DocumentOutcome, Outcome, PipelineRequest } from "../endpoints/outcome.ts";

/** A document and its ETag, which is computed on first use. */
export interface LazyDocument {
  /** A JSON value, or bytes in another format. */
  readonly body: unknown;
  /** The JSON value as bytes, if it was encoded before. */
  readonly encoded?: Uint8Array;
  readonly etag: string;
}

/** Creates a {@link LazyDocument}. */
export function lazyDocument(body: unknown): LazyDocument {
  let etag: string | undefined;
  return {
    body,
    get etag() {
      etag ??= `"${createHash("sha256")
        .update(body instanceof Uint8Array ? body : JSON.stringify(body))
        .digest("hex")
        .slice(0, 64)
        .toUpperCase()}"`;
      return etag;
    },
  };
}

/** Serves a document, or 304 if the client has it. */
export function serveDocument(
  request: PipelineRequest,
  document: LazyDocument,
  headers: DocumentOutcome["headers"] = {},
): Outcome {
  const all = { "cache-control": "no-cache, private", ...headers, etag: document.etag };
  const known = request.headers?.["if-none-match"];
  if (known !== undefined && known.split(",").some((tag) => tag.trim() === document.etag)) {
    return { kind: "raw", status: 304, headers: all, body: "" };
  }
  const { encoded } = document;
  if (encoded !== undefined) {
    return {
      kind: "document",
      status: 200,
      headers: all,
      encoded,
      get body() {
        return document.body;
      },
    };
  }
  if (document.body instanceof Uint8Array) {
    return { kind: "raw", status: 200, headers: { "content-type": "application/octet-stream", ...all }, body: document.body };
  }
  return { kind: "document", status: 200, headers: all, body: document.body };
}
