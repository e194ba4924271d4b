/**
 * Why auditing cannot start:
 *
 * - `InvalidPolicy`: the policy is malformed.
 * - `Unreadable`: the policy file cannot be read.
 * - `Unwritable`: the log file cannot be opened.
 */
export type AuditErrorCode = "InvalidPolicy" | "Unreadable" | "Unwritable";

/** An error of the audit configuration. */
export class AuditError extends Error {
  override readonly name = "AuditError";
  readonly code: AuditErrorCode;

  constructor(code: AuditErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Whether an error is an {@link AuditError}. */
export function isAuditError(error: unknown): error is AuditError {
  return error instanceof Error && error.name === "AuditError" && "code" in error;
}
