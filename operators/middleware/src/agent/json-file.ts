import { readFile, rename, writeFile } from "node:fs/promises";

/** The value in a JSON file; `undefined` where there is no such file. Throws where it cannot be read, or is no JSON. */
export async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Writes a value as JSON: whole and on the disk when this resolves, or not at all. Only its owner may read it. */
export async function writeJson(file: string, value: unknown): Promise<void> {
  await writeFile(`${file}.new`, JSON.stringify(value), { mode: 0o600, flush: true });
  await rename(`${file}.new`, file);
}
