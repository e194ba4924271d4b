import { isJsonObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { ApiRequest, ApiResponse } from "@keelson/api-machinery/transport";

/** Maximum number of retries of a call that the server requested. */
export const maxRetries = 4;

/** Maximum `Retry-After` that is honored. Beyond it the error is returned immediately. */
const maxDelayMs = 60_000;

/**
 * The delay before a retry of `request`; `undefined` if the response is final.
 *
 * Only idempotent requests are retried: a proxy may respond with 503 after the request had its effect. Without `Retry-After` nothing is
 * retried.
 */
export function retryDelayMs(request: ApiRequest, response: ApiResponse, clock: Clock): number | undefined {
  if (response.status !== 429 && response.status !== 503) return undefined;
  if (!isIdempotent(request)) return undefined;
  const requested = retryAfterMs(response, clock);
  return requested === undefined || requested > maxDelayMs ? undefined : requested;
}

/** A JSON Patch is not idempotent, because it may append. */
function isIdempotent(request: ApiRequest): boolean {
  if (request.method === "POST") return false;
  return request.method !== "PATCH" || request.headers?.["content-type"] !== "application/json-patch+json";
}

function retryAfterMs(response: ApiResponse, clock: Clock): number | undefined {
  const header = response.headers["retry-after"];
  if (header !== undefined) {
    if (/^\d+$/.test(header)) return Number(header) * 1000;
    const at = Date.parse(header);
    return Number.isNaN(at) ? undefined : Math.max(at - clock.now(), 0);
  }
  if (isJsonObject(response.body) && isJsonObject(response.body["details"])) {
    const seconds = response.body["details"]["retryAfterSeconds"];
    if (typeof seconds === "number" && seconds > 0) return seconds * 1000;
  }
  return undefined;
}
