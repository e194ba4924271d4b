/**
 * Why the storage failed:
 *
 * - `StorageFull`: no space for a commit. Earlier commits are intact, and a later commit may succeed.
 * - `Damaged`: stored data is missing or altered.
 * - `InUse`: another process has the directory open.
 * - `Missing`: the directory does not exist.
 * - `NotEmpty`: the directory has data that would be replaced.
 */
export type StorageErrorCode = "StorageFull" | "Damaged" | "InUse" | "Missing" | "NotEmpty";

/** An error of the storage. */
export class StorageError extends Error {
  override readonly name = "StorageError";
  readonly code: StorageErrorCode;

  constructor(code: StorageErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Whether an error is a {@link StorageError}, of one `code` if that is given. */
export function isStorageError(error: unknown, code?: StorageErrorCode): error is StorageError {
  if (!(error instanceof Error) || error.name !== "StorageError" || !("code" in error)) return false;
  return code === undefined || error.code === code;
}

/** Codes of the operating system for a write that finds no space. */
const fullCodes: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

/** Whether a write failed because there is no space. */
export function isOutOfSpace(error: unknown): boolean {
  return error instanceof Error && "code" in error && fullCodes.has(error.code);
}

/** The error for a commit without space. */
export function storageFull(cause: unknown): StorageError {
  return new StorageError("StorageFull", "no space left for the data directory", { cause });
}
