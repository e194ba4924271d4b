import { BackupError } from "./backup-error.ts";

/** Stores files of backups. Paths are relative, with `/`. */
export interface BackupStore {
  /** Stores a stream. The file is visible under its path only when it is complete and durable. */
  write(path: string, data: AsyncIterable<Uint8Array>): Promise<void>;
  /** Reads a file. Rejects with a `BackupError` with code `NotFound` if it does not exist. */
  read(path: string): AsyncIterable<Uint8Array>;
  /** Deletes a directory with everything in it, incomplete files included. A directory that does not exist is not an error. */
  remove(folder: string): Promise<void>;
  /** Names of the complete files in a directory, in no order. Empty if it does not exist. */
  list(folder: string): Promise<readonly string[]>;
  /** Deletes a file. One that does not exist is not an error. */
  removeFile(path: string): Promise<void>;
}

/**
 * Returns a path whose segments are names.
 *
 * **Errors**: a `BackupError` with code `Storage` for an absolute path, and for empty, `.` and `..` segments.
 */
export function checkedPath(path: string): string {
  if (path.split("/").some((segment) => segment === "" || segment === "." || segment === ".."))
    throw new BackupError("Storage", `path ${JSON.stringify(path)} must be relative, without empty, . and .. segments`);
  return path;
}

/** A file of one chunk. */
export async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
