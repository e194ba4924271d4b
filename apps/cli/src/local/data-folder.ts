import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";

/** The folder that is to keep all state cannot be made. The message names it and says what to do. */
export class DataFolderError extends Error {
  override readonly name = "DataFolderError";
  readonly code = "DataFolder";
}

/**
 * Makes the folder that keeps all state, and those above it. Throws a {@link DataFolderError}.
 *
 * One folder at a time: `mkdir` with `recursive` never answers where a file system has a folder but makes none in it (`/proc`).
 */
export async function makeDataFolder(path: string): Promise<void> {
  try {
    await makeFolder(path);
  } catch (error) {
    throw new DataFolderError(
      `--data-dir: ${path} cannot be made: ${error instanceof Error ? error.message : String(error)}; choose a folder that you may write to`,
      { cause: error },
    );
  }
}

async function makeFolder(path: string): Promise<void> {
  const make = async (): Promise<"made" | "no-parent"> => {
    try {
      await mkdir(path);
      return "made";
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === "EEXIST") return "made";
      if (code === "ENOENT" && dirname(path) !== path) return "no-parent";
      throw error;
    }
  };
  if ((await make()) === "made") return;
  await makeFolder(dirname(path));
  await mkdir(path);
}
