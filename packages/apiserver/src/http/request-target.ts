import type { IncomingMessage } from "node:http";
import { statusError } from "@keelson/api-machinery";
import type { PipelineRequest } from "../endpoints/outcome.ts";
import type { IncludeObject } from "./encode.ts";

/** What a request line asks for. */
export interface Target {
  /** Percent-encoded, without the query. */
  readonly path: string;
  readonly query: Readonly<Record<string, string | undefined>>;
}

/** Path as it came, and the query parameters; of a parameter given twice the first counts, as in Go's `Values.Get`. */
export function splitTarget(url: string): Target {
  // A proxy's form ("GET https://host/path") is allowed by RFC 9112 section 3.2.2.
  const local = /^https?:\/\/[^/?]*/i.exec(url);
  const rest = local === null ? url : url.slice(local[0].length);
  const mark = rest.indexOf("?");
  const path = mark < 0 ? rest : rest.slice(0, mark);
  const entries = mark < 0 ? [] : [...new URLSearchParams(rest.slice(mark + 1))].reverse();
  return { path: path === "" ? "/" : path, query: Object.fromEntries(entries) };
}

/** Whether a path is of a resource, so that its answer is an object or a list. */
export function isResourcePath(path: string): boolean {
  return /^\/(api\/[^/]+|apis\/[^/]+\/[^/]+)\/[^/]/.test(path);
}

/** Whether a method is one that the API knows. */
export function isApiMethod(method: string | undefined): method is PipelineRequest["method"] {
  return method === "GET" || method === "POST" || method === "PUT" || method === "PATCH" || method === "DELETE";
}

/** Headers for the pipeline. Credentials stop here: nothing behind needs them, and they must not reach logs or webhooks. */
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
 * The headers that say who sends a request, every value of each on its own (Node joins repeated ones by a comma, which a
 * group's name may contain).
 */
export function credentialHeaders({ rawHeaders }: IncomingMessage): Readonly<Record<string, readonly string[]>> {
  const found: Record<string, string[]> = {};
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? "").toLowerCase();
    if (name === "authorization" || name.startsWith("impersonate-")) (found[name] ??= []).push(rawHeaders[at + 1] ?? "");
  }
  return found;
}

/** The audit id that a client gave its request, if it is one that can be repeated. */
export function requestedAuditId(request: IncomingMessage): string | undefined {
  const asked = request.headers["audit-id"];
  return typeof asked === "string" && /^[\x21-\x7e]{1,64}$/.test(asked) ? asked : undefined;
}

/** Whether JSON is to be indented: as the query says, else for programs that people look at. */
export function wantsPretty(request: IncomingMessage, query: Target["query"]): boolean {
  const asked = query["pretty"];
  if (asked !== undefined) return asked !== "false" && asked !== "0";
  return /^(curl|Wget|Mozilla\/5\.0)/.test(request.headers["user-agent"] ?? "");
}

/** What the rows of a Table are to carry. Throws `BadRequest`. */
export function includeObject(query: Target["query"]): IncludeObject {
  const asked = query["includeObject"];
  if (asked === undefined || asked === "") return "Metadata";
  if (asked === "None" || asked === "Metadata" || asked === "Object") return asked;
  throw statusError("BadRequest", `includeObject: unrecognized value ${JSON.stringify(asked)}: use None, Metadata or Object`);
}
