import type { IncomingMessage } from "node:http";
import { statusError } from "@keelson/api-machinery";
import type { PipelineRequest } from "../endpoints/outcome.ts";
import type { IncludeObject } from "./encode.ts";

/** The target of a request line. */
export interface Target {
  /** Percent-encoded, without the query. */
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
  /** Every value of the `dryRun` parameter, if it is repeated. */
  readonly repeatedDryRun?: readonly string[];
}

/** Splits a URL into its raw path and query parameters. Of a repeated parameter the first wins, as in Go's `Values.Get`. */
export function splitTarget(url: string): Target {
  // RFC 9112 section 3.2.2 also allows the absolute form ("GET https://host/path").
  const local = /^https?:\/\/[^/?]*/i.exec(url);
  const rest = local === null ? url : url.slice(local[0].length);
  const mark = rest.indexOf("?");
  const path = mark < 0 ? rest : rest.slice(0, mark);
  const text = mark < 0 ? "" : rest.slice(mark + 1);
  const target = { path: path === "" ? "/" : path, query: mark < 0 ? {} : parseQuery(text) };
  if (text.indexOf("dryRun") === text.lastIndexOf("dryRun")) return target;
  return { ...target, repeatedDryRun: new URLSearchParams(text).getAll("dryRun") };
}

function parseQuery(text: string): Target["query"] {
  if (/[%+]|^\?/.test(text)) return Object.fromEntries([...new URLSearchParams(text)].reverse());
  // Nothing to decode, as in most requests: this takes a third of the time.
  const entries: [string, string][] = [];
  for (const pair of text.split("&")) {
    if (pair === "") continue;
    const mark = pair.indexOf("=");
    entries.push(mark < 0 ? [pair, ""] : [pair.slice(0, mark), pair.slice(mark + 1)]);
  }
  return Object.fromEntries(entries.reverse());
}

/** Whether a path belongs to a resource, so that the response is an object or a list. */
export function isResourcePath(path: string): boolean {
  return /^\/(api\/[^/]+|apis\/[^/]+\/[^/]+)\/[^/]/.test(path);
}

/** Whether the API has a method. */
export function isApiMethod(method: string | undefined): method is PipelineRequest["method"] {
  return method === "GET" || method === "POST" || method === "PUT" || method === "PATCH" || method === "DELETE";
}

/** Headers for the pipeline, without credentials: they must not reach logs or webhooks. */
export function plainHeaders(request: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  const given = request.headers;
  for (const name of Object.keys(given)) {
    const value = given[name];
    if (name === "authorization" || name === "cookie" || name.startsWith("impersonate-") || value === undefined) continue;
    headers[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return headers;
}

/**
 * The headers that authenticate a request, with every value separate. Node joins repeated headers with a comma, which a group name may
 * contain.
 */
export function credentialHeaders({ rawHeaders }: IncomingMessage): Readonly<Record<string, readonly string[]>> {
  const found: Record<string, string[]> = {};
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? "").toLowerCase();
    if (name === "authorization" || name.startsWith("impersonate-")) (found[name] ??= []).push(rawHeaders[at + 1] ?? "");
  }
  return found;
}

/** The client's audit id, if it is printable ASCII of at most 64 characters. */
export function requestedAuditId(request: IncomingMessage): string | undefined {
  const requested = request.headers["audit-id"];
  return typeof requested === "string" && /^[\x21-\x7e]{1,64}$/.test(requested) ? requested : undefined;
}

/** Whether to indent JSON: according to the query, or for interactive programs. */
export function wantsPretty(request: IncomingMessage, query: Target["query"]): boolean {
  const { pretty } = query;
  if (pretty !== undefined) return pretty !== "false" && pretty !== "0";
  return /^(curl|Wget|Mozilla\/5\.0)/.test(request.headers["user-agent"] ?? "");
}

/** How much of each object the rows of a Table carry. Throws `BadRequest`. */
export function includeObject(query: Target["query"]): IncludeObject {
  const value = query["includeObject"];
  if (value === undefined || value === "") return "Metadata";
  if (value === "None" || value === "Metadata" || value === "Object") return value;
  throw statusError(
    "BadRequest",
    `Unable to convert to Table as requested: includeObject: Invalid value: ${JSON.stringify(value)}: must be 'Metadata', 'Object', 'None', or empty`,
  );
}
