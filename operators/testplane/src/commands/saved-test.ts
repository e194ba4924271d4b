import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A copy of a test on disk. */
export interface SavedTest {
  readonly path: string;
  remove(): Promise<void>;
}

/** Writes a test to a file `NAME.json` of a new directory `keelson-rerun-*` of the directory for temporary files. */
export async function saveTest(test: Readonly<Record<string, unknown>>, name: string): Promise<SavedTest> {
  const folder = await mkdtemp(join(tmpdir(), "keelson-rerun-"));
  const path = join(folder, `${name}.json`);
  await writeFile(path, `${JSON.stringify(test, null, 2)}\n`);
  return { path, remove: () => rm(folder, { recursive: true, force: true }) };
}
