import type { ApiRequest } from "@keelson/api-machinery/transport";
import type { Dispatcher } from "undici";
import { TransportError } from "./transport-error.ts";

/** The path of a request with its query. */
export function pathOf(request: ApiRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) if (value !== undefined) query.append(name, value);
  return query.size === 0 ? request.path : `${request.path}?${query.toString()}`;
}

/** The serialized body of a request. */
export function contentOf(request: ApiRequest): string | null {
  return request.body === undefined ? null : JSON.stringify(request.body);
}

/** The headers of a response, with repeated values joined. */
export function headersOf(response: Dispatcher.ResponseData): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(response.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return headers;
}

/** The body of a response. */
export interface ResponseBody {
  /** Parsed if its content type is JSON, else text. */
  readonly value: unknown;
  readonly bytes: number;
}

/**
 * Reads the complete body of a response.
 *
 * **Errors**: `TransportError` `InvalidResponse` if the body of a successful response is not the JSON that its content type declares.
 */
export async function readBody(response: Dispatcher.ResponseData): Promise<ResponseBody> {
  const content = Buffer.from(await response.body.arrayBuffer());
  const bytes = content.length;
  const text = content.toString("utf8");
  const type = String(response.headers["content-type"] ?? "");
  if (!/^application\/(?:[\w.-]+\+)?json\b/.test(type)) return { value: text, bytes };
  try {
    const value: unknown = JSON.parse(text);
    return { value, bytes };
  } catch (error) {
    // An error page with a wrong content type is still a response.
    if (response.statusCode >= 400) return { value: text, bytes };
    throw new TransportError("InvalidResponse", `the response is not JSON: ${text.slice(0, 100)}`, { cause: error });
  }
}
