/** `Protocol`: the peer violated the protocol. `TooLong`: it exceeded a limit. */
export type StreamErrorCode = "Closed" | "Reset" | "Protocol" | "TooLong";

/** An error of a streaming connection (exec, attach, port-forward). */
export class StreamError extends Error {
  override readonly name = "StreamError";
  readonly code: StreamErrorCode;

  constructor(code: StreamErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
