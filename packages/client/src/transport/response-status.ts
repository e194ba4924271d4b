import { isJsonObject, type Status, StatusError, type StatusReason } from "@keelson/api-machinery";

const reasons: Readonly<Record<number, StatusReason>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  406: "NotAcceptable",
  409: "Conflict",
  410: "Expired",
  413: "RequestEntityTooLarge",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/**
 * The error of an unsuccessful response: its Status, or one created from the code and the text if a proxy responded instead of
 * the API server.
 */
export function statusErrorOf(code: number, body: unknown, what: string): StatusError {
  if (isJsonObject(body) && body["kind"] === "Status") {
    const status = body as unknown as Status;
    return new StatusError(status.code === undefined || status.code === 0 ? { ...status, code } : status);
  }
  const text = typeof body === "string" ? body.trim().slice(0, 1024) : "";
  return new StatusError({
    apiVersion: "v1",
    kind: "Status",
    metadata: {},
    status: "Failure",
    message: `${what}: the server responded with ${code}${text === "" ? "" : `: ${text}`}`,
    reason: reasons[code] ?? (code >= 500 ? "InternalError" : "Unknown"),
    code,
  });
}
