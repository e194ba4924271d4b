import { type FolderLock, lockFolder } from "@keelson/execution/files";
import { DataFolderError } from "./data-folder.ts";

/**
 * Locks a data directory for this process. On a full disk there is no lock, so that reads can still be served; the storage has its own lock.
 *
 * **Errors**: {@link DataFolderError}, naming the process that uses the directory.
 */
export async function lockDataFolder(dataDir: string, random: () => number): Promise<FolderLock> {
  try {
    return await lockFolder(dataDir, random);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOSPC") return { release: () => Promise.resolve() };
    const message = error instanceof Error ? error.message : String(error);
    throw new DataFolderError(`--data-dir: ${message}`, { cause: error });
  }
}
