/** Why a CEL function of this package failed. */
export type CelErrorCode = "InvalidArgument" | "OutOfRange" | "ParseError";

/** A CEL function failed. The rule that called it fails with this message. */
export class CelError extends Error {
  readonly code: CelErrorCode;

  constructor(code: CelErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "CelError";
    this.code = code;
  }
}
