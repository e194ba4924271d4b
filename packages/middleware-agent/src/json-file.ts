import { readFile, rename, writeFile } from "node:fs/promises";

/** Reads a JSON file. Resolves to `undefined` if it does not exist. Rejects if it cannot be read or parsed. */
export async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Writes a JSON file atomically, readable only by its owner. `isDurable`: it survives a crash of the machine. */
export async function writeJson(file: string, value: unknown, isDurable = true): Promise<void> {
  await writeFile(`${file}.new`, JSON.stringify(value), { mode: 0o600, flush: isDurable });
  await rename(`${file}.new`, file);
}
