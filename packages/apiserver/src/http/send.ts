import type { ServerResponse } from "node:http";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createGzip } from "node:zlib";
import type { EncodedBody } from "./encode.ts";

/** Larger responses are compressed for clients that accept gzip, as in kube-apiserver (KEP-156). */
const gzipBytes = 128 * 1024;

/** Response headers, with names in lower case. */
export type ResponseHeaders = Record<string, string | string[]>;

/** Sends a response with a complete body. Adds the headers that depend on the body. */
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
  // A body that is read while it is sent is a long one.
  if (!hasNoBody && (body.bytes ?? Infinity) > gzipBytes && acceptsGzip(request.acceptEncoding)) {
    headers["content-encoding"] = "gzip";
    headers["vary"] = "Accept-Encoding";
    response.writeHead(status, headers);
    const gzip = createGzip({ level: constants.Z_BEST_SPEED });
    const written = writeParts(gzip, body.parts()).finally(() => {
      // A response that ends early must not look complete.
      if (!gzip.writableEnded) gzip.destroy();
    });
    await Promise.all([written, pipeline(gzip, response)]);
    return;
  }
  if (body.bytes !== undefined) headers["content-length"] = String(body.bytes);
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
  await writeParts(response, parts);
}

/**
 * Writes the parts and ends the stream. A part is written once the one before it was taken, because its memory may then be used again; the
 * next one is read in the meantime. Returns early if the stream is closed. Rejects if the parts cannot be read; the stream is left open then.
 */
async function writeParts(stream: Writable, parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void> {
  let last = Promise.resolve();
  let onTaken = (): void => undefined;
  const taken = (): void => onTaken();
  stream.on("close", taken);
  try {
    for await (const part of parts) {
      // The next part is read while the last one is sent.
      await last;
      if (stream.destroyed) return;
      last = new Promise<void>((resolve) => {
        onTaken = resolve;
        stream.write(part, taken);
      });
    }
    await last;
    stream.end();
  } finally {
    stream.off("close", taken);
  }
}

/** Whether an Accept-Encoding header accepts gzip. */
function acceptsGzip(header: string | undefined): boolean {
  return (header ?? "").split(",").some((clause) => {
    const [coding = "", ...parameters] = clause.split(";").map((part) => part.trim().toLowerCase());
    return coding === "gzip" && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

/** Values of the `warning` header (RFC 7234 section 5.5): code 299, no agent, the quoted text. */
export function warningHeaders(warnings: readonly string[]): string[] {
  return warnings.map((text) => {
    const oneLine = text.replaceAll(/\p{Cc}+/gu, " ").replaceAll(/["\\]/g, "\\$&");
    // Node writes headers as Latin-1. This produces the UTF-8 bytes that clients expect.
    return `299 - "${Buffer.from(oneLine, "utf8").toString("latin1")}"`;
  });
}
