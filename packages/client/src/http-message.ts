import type { ApiRequest } from "@keelson/api-machinery/transport";
import type { Dispatcher } from "undici";
import { TransportError } from "./transport-error.ts";

/** The path of a request with its query, as it is sent. */
export function pathOf(request: ApiRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) if (value !== undefined) query.append(name, value);
  return query.size === 0 ? request.path : `${request.path}?${query.toString()}`;
}

/** The body of a request, as it is sent. */
export function contentOf(request: ApiRequest): string | null {
  return request.body === undefined ? null : JSON.stringify(request.body);
}

/** The headers of an answer, one text each. */
export function headersOf(response: Dispatcher.ResponseData): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(response.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return headers;
}

/** The body of an answer, and how many bytes it had. */
export interface AnswerBody {
  /** JSON where it says that it is JSON, else text. */
  readonly value: unknown;
  readonly bytes: number;
}

/**
 * Reads the body of an answer to its end.
 *
 * **Errors**: `TransportError` `InvalidResponse` where a success is not the JSON that it says it is.
 */
export async function readBody(response: Dispatcher.ResponseData): Promise<AnswerBody> {
  const content = Buffer.from(await response.body.arrayBuffer());
  const bytes = content.length;
  const text = content.toString("utf8");
  const type = String(response.headers["content-type"] ?? "");
  if (!/^application\/(?:[\w.-]+\+)?json\b/.test(type)) return { value: text, bytes };
  try {
    const value: unknown = JSON.parse(text);
    return { value, bytes };
  } catch (error) {
    // An error page that only claims to be JSON is still the server's answer.
    if (response.statusCode >= 400) return { value: text, bytes };
    throw new TransportError("InvalidResponse", `the answer is not JSON: ${text.slice(0, 100)}`, { cause: error });
  }
}
