import { statusError } from "@keelson/api-machinery";

/** The raw response to bytes that Node's parser rejects, by the parser's error code. */
export function malformedRequestResponse({ code }: NodeJS.ErrnoException): string {
  const status =
    code === "HPE_INVALID_METHOD"
      ? statusError("MethodNotAllowed", "the server does not allow this method on the requested resource").status
      : undefined;
  const body = status === undefined ? "" : JSON.stringify(status);
  const type = status === undefined ? "" : "content-type: application/json\r\n";
  const line = (code === undefined ? undefined : statusLines.get(code)) ?? "400 Bad Request";
  return `HTTP/1.1 ${line}\r\nconnection: close\r\n${type}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

const statusLines: ReadonlyMap<string, string> = new Map([
  ["HPE_INVALID_METHOD", "405 Method Not Allowed"],
  ["HPE_HEADER_OVERFLOW", "431 Request Header Fields Too Large"],
  ["ERR_HTTP_REQUEST_TIMEOUT", "408 Request Timeout"],
]);

/** Whether an error only says that the peer closed the connection. */
export function isConnectionError(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code !== undefined && connectionErrors.has(code);
}

const connectionErrors: ReadonlySet<string> = new Set([
  "ECONNRESET",
  "EPIPE",
  "ERR_STREAM_PREMATURE_CLOSE",
  "ERR_STREAM_DESTROYED",
]);
