/**
 * Why data could not be stored or restored. `Damaged`: the data is not what was stored. `WrongKey`, `InvalidKey`, `NotFound` and
 * `Rejected` (by the program) cannot be solved by a retry; `Storage` may be temporary, and so may `NotLoaded`: the program has kept its
 * data.
 */
export type BackupErrorCode = "Damaged" | "WrongKey" | "InvalidKey" | "NotFound" | "Rejected" | "NotLoaded" | "Storage";

/** A failed transfer of a backup. */
export class BackupError extends Error {
  override readonly name = "BackupError";
  readonly code: BackupErrorCode;

  constructor(code: BackupErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
