/**
 * Why no answer came.
 *
 * - `Unreachable`: no connection was made (refused, no such host, no route).
 * - `Tls`: the two sides did not agree on certificates.
 * - `ConnectionLost`: the connection broke before the whole answer was there.
 * - `Timeout`: connecting or the answer took too long, or a watch was silent for longer than it may be.
 * - `InvalidResponse`: what came is not what the protocol says (broken JSON, a line without end, a line too long).
 * - `Credentials`: the credentials for the request could not be had.
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

/** No answer came, or not a whole one. Whether the request had an effect is unknown unless `code` is `Unreachable`. */
export class TransportError extends Error {
  override readonly name = "TransportError";
  readonly code: TransportErrorCode;
  readonly [brand] = true;

  constructor(code: TransportErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Whether `error` is a {@link TransportError}, also one from another copy of this package; with `code`, one of that code. */
export function isTransportError(error: unknown, code?: TransportErrorCode): error is TransportError {
  if (typeof error !== "object" || error === null || !(brand in error)) return false;
  return code === undefined || (error as TransportError).code === code;
}
