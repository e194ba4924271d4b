import { existsSync } from "node:fs";
import { lockFolder } from "../folder-lock.ts";
import { StorageError } from "../storage-error.ts";

/** Runs `change` while no server can open the directory. */
export async function withLockedFolder<T>(dir: string, change: () => Promise<T>): Promise<T> {
  const unlock = lockFolder(dir);
  try {
    return await change();
  } finally {
    unlock();
  }
}

/** Throws a {@link StorageError} `Missing` if there is no data directory. */
export function requireFolder(dir: string): void {
  if (!existsSync(dir)) throw new StorageError("Missing", `${dir} does not exist: check --data-dir`);
}
