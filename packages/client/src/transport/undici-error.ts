import { isStatusError } from "@keelson/api-machinery";
import { isTransportError, TransportError, type TransportErrorCode } from "./transport-error.ts";

const unreachable = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "ENOENT",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
]);
const timedOut = new Set(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"]);
const closed = new Set(["UND_ERR_DESTROYED", "UND_ERR_CLOSED"]);

/** Converts an error of undici to a {@link TransportError}. Transport and status errors are returned unchanged. */
export function transportErrorOf(error: unknown, what: string): unknown {
  if (isTransportError(error) || isStatusError(error) || !(error instanceof Error)) return error;
  return new TransportError(codeOf(error), `${what}: ${messageOf(error)}`, { cause: error });
}

function codeOf(error: Error): TransportErrorCode {
  const code = String((error as NodeJS.ErrnoException).code ?? "");
  if (unreachable.has(code)) return "Unreachable";
  if (timedOut.has(code)) return "Timeout";
  if (closed.has(code)) return "Closed";
  if (code === "UND_ERR_RES_EXCEEDED_MAX_SIZE") return "InvalidResponse";
  if (/^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA)/.test(code))
    return "Tls";
  return "ConnectionLost";
}

/** An AggregateError of several addresses has no message of its own. */
function messageOf(error: Error): string {
  if (error.message !== "") return error.message;
  if (error instanceof AggregateError) return error.errors.map(String).join("; ");
  return String((error as NodeJS.ErrnoException).code ?? error.name);
}
