import { chmod, mkdir } from "node:fs/promises";
import { dirname } from "node:path";

/** The data directory cannot be created. The message names the directory and the remedy. */
export class DataFolderError extends Error {
  override readonly name = "DataFolderError";
  readonly code = "DataFolder";
}

/**
 * Creates the data directory and its parents, and closes it to other users. Throws a {@link DataFolderError}.
 *
 * Each level is created separately, because a recursive `mkdir` never settles on a file system that rejects new directories (`/proc`).
 */
export async function createDataFolder(path: string): Promise<void> {
  try {
    await createFolder(path);
    // Programs of Pods run as other users and have their root file systems below, so the directory stays searchable.
    await chmod(path, 0o711);
  } catch (error) {
    throw new DataFolderError(
      `--data-dir: ${path} cannot be created: ${error instanceof Error ? error.message : String(error)}; choose a writable directory`,
      { cause: error },
    );
  }
}

async function createFolder(path: string): Promise<void> {
  const create = async (): Promise<"created" | "no-parent"> => {
    try {
      await mkdir(path);
      return "created";
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === "EEXIST") return "created";
      if (code === "ENOENT" && dirname(path) !== path) return "no-parent";
      throw error;
    }
  };
  if ((await create()) === "created") return;
  await createFolder(dirname(path));
  await mkdir(path);
}
