import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createGzip } from "node:zlib";
import type { EncodedBody } from "./encode.ts";

/** Answers longer than this are compressed for clients that take it, as kube-apiserver does (KEP-156). */
const gzipBytes = 128 * 1024;

/** Headers of an answer on their way: names in lower case, one value each or several. */
export type ResponseHeaders = Record<string, string | string[]>;

/** Sends an answer whose body is known, and adds to its headers what follows from the body. */
export async function sendBody(
  response: ServerResponse,
  answer: {
    readonly status: number;
    readonly headers: ResponseHeaders;
    readonly body: EncodedBody;
  },
  request: { readonly isHead: boolean; readonly acceptEncoding: string | undefined },
): Promise<void> {
  const { status, headers, body } = answer;
  const hasNoBody = request.isHead || status === 204 || status === 304;
  if (!hasNoBody && body.bytes > gzipBytes && acceptsGzip(request.acceptEncoding)) {
    headers["content-encoding"] = "gzip";
    headers["vary"] = "Accept-Encoding";
    response.writeHead(status, headers);
    await pipeline(Readable.from(body.parts()), createGzip({ level: constants.Z_BEST_SPEED }), response);
    return;
  }
  headers["content-length"] = String(body.bytes);
  response.writeHead(status, headers);
  if (hasNoBody) {
    response.end();
    return;
  }
  const parts = body.parts();
  if (Array.isArray(parts) && parts.length === 1) {
    response.end(parts[0]);
    return;
  }
  await pipeline(Readable.from(parts), response);
}

/** Whether an Accept-Encoding header takes gzip. */
export function acceptsGzip(header: string | undefined): boolean {
  return (header ?? "").split(",").some((clause) => {
    const [coding = "", ...parameters] = clause.split(";").map((part) => part.trim().toLowerCase());
    return coding === "gzip" && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

/** Values of the `warning` header (RFC 7234 section 5.5): code 299, no agent, the text quoted. */
export function warningHeaders(warnings: readonly string[]): string[] {
  return warnings.map((text) => {
    const oneLine = text.replaceAll(/\p{Cc}+/gu, " ").replaceAll(/["\\]/g, "\\$&");
    // Node writes headers as Latin-1; this makes those bytes UTF-8, which is what clients read.
    return `299 - "${Buffer.from(oneLine, "utf8").toString("latin1")}"`;
  });
}
