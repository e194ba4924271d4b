/**
 * Why there is no response.
 *
 * - `Unreachable`: no connection (refused, unknown host, no route).
 * - `Tls`: the TLS handshake failed, for example because of a certificate.
 * - `ConnectionLost`: the connection was lost before the response was complete.
 * - `Timeout`: the connection or the response took too long, or a watch was silent for too long.
 * - `InvalidResponse`: the response violates the protocol (invalid JSON, an incomplete or too long line).
 * - `Credentials`: the credentials could not be obtained.
 * - `Closed`: the transport is closed.
 */
export type TransportErrorCode =
  | "Unreachable"
  | "Tls"
  | "ConnectionLost"
  | "Timeout"
  | "InvalidResponse"
  | "Credentials"
  | "Closed";

const brand = Symbol.for("keelson.TransportError");

/** The request got no complete response. Unless `code` is `Unreachable`, the request may have had an effect. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  readonly code: TransportErrorCode;
  readonly [brand] = true;

  constructor(code: TransportErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Whether `error` is a {@link TransportError}, including from another copy of this package; with `code`, of that code. */
export function isTransportError(error: unknown, code?: TransportErrorCode): error is TransportError {
  if (typeof error !== "object" || error === null || !(brand in error)) return false;
  return code === undefined || (error as TransportError).code === code;
}
