import { isJsonObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { ApiRequest, ApiResponse } from "@keelson/api-machinery/transport";

/** How often one call is sent again because the server asked for it. */
export const maxRetries = 4;

/** The longest wait that is honoured; a server that asks for more gets its refusal passed on at once. */
const longestWaitMs = 60_000;

/**
 * How long to wait before sending `request` again, or `undefined` when its answer stands.
 *
 * A 429 was refused before anything was done, so everything but a create may follow it; a 503 may come from a proxy after
 * the effect, so only requests follow it that can be done twice. Without `Retry-After` nothing is sent again.
 */
export function retryDelayMs(request: ApiRequest, response: ApiResponse, clock: Clock): number | undefined {
  if (response.status !== 429 && response.status !== 503) return undefined;
  if (!isRepeatable(request)) return undefined;
  const asked = retryAfterMs(response, clock);
  return asked === undefined || asked > longestWaitMs ? undefined : asked;
}

/** A JSON Patch may append: it is the one patch that differs when done twice. */
function isRepeatable(request: ApiRequest): boolean {
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
