import { posix } from "node:path";
import { pipeline, Readable, type Transform } from "node:stream";
import { constants, createGunzip, createGzip } from "node:zlib";
import type { RawOutcome } from "../outcome.ts";
import { createLinkRewriter } from "./html-links.ts";

/** The request that a response answers. */
export interface ProxiedRequest {
  readonly method: string;
  /** The path up to and including `proxy`. */
  readonly prefix: string;
  /** Host and port of the target. */
  readonly targetHost: string;
  /** Host and port at which the sender addressed the API server. */
  readonly senderHost: string;
}

/**
 * Makes the links of an HTML response lead back through the proxy, as kube-apiserver does. Responses of other types, redirects, parts of a
 * document, and encodings other than gzip stay unchanged.
 */
export function withLinksThroughProxy(response: RawOutcome, request: ProxiedRequest): RawOutcome {
  const { "content-type": type = "", "content-encoding": encoding = "", location } = response.headers;
  const isHtml = type.split(";")[0]?.trim().toLowerCase() === "text/html";
  const isWhole = request.method !== "HEAD" && location === undefined && ![204, 206, 304].includes(response.status);
  if (!isHtml || !isWhole || !["", "gzip"].includes(encoding) || !(response.body instanceof Readable)) return response;
  const rewriter = createLinkRewriter((link) => linkThroughProxy(link, request));
  const { "content-length": _, ...headers } = response.headers;
  return {
    ...response,
    headers,
    body: encoding === "gzip" ? zipped(response.body, rewriter) : piped([response.body, rewriter]),
  };
}

function zipped(body: Readable, rewriter: Transform): Readable {
  // A page that is sent in parts must not wait for its end.
  return piped([body, createGunzip(), rewriter, createGzip({ flush: constants.Z_SYNC_FLUSH })]);
}

/** The end of a pipeline. Its reader gets the failures of all. */
function piped(streams: readonly [Readable, ...Transform[]]): Readable {
  pipeline(streams, () => {});
  return streams.at(-1) ?? streams[0];
}

/** A link with an absolute path at the target's or the API server's own address, as a path below the proxy's. Others stay. */
function linkThroughProxy(link: string, { prefix, targetHost, senderHost }: ProxiedRequest): string {
  const match = /^((?:https?:)?\/\/([^/?#]*))?(\/[^?#]*)(.*)$/is.exec(link);
  const [, origin = "", host = "", path = "", rest = ""] = match ?? [];
  if (match === null || ![targetHost, senderHost, ""].includes(host)) return link;
  const start = host !== "" && host === senderHost ? origin : "";
  const isThrough = path === prefix || path.startsWith(`${prefix}/`);
  return `${start}${isThrough ? path : `${escaped(prefix)}${posix.normalize(path)}`}${rest}`;
}

/** The prefix comes from the request's URL and must not end an attribute. */
const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
