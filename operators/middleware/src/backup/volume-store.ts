import { createReadStream } from "node:fs";
import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { BackupError } from "./backup-error.ts";
import { type BackupStore, checkedPath } from "./backup-store.ts";

const partialSuffix = ".partial";

/** Stores backups in a directory, such as a mounted volume. */
export class VolumeStore implements BackupStore {
  readonly #root: string;

  constructor(root: string) {
    this.#root = resolve(root);
  }

  async write(path: string, data: AsyncIterable<Uint8Array>): Promise<void> {
    const file = this.#resolve(path);
    await mkdir(dirname(file), { recursive: true });
    const partial = file + partialSuffix;
    const handle = await open(partial, "w", 0o600);
    try {
      for await (const chunk of data) await writeAll(handle, chunk);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, file);
    // A directory survives a crash of the machine only with its parent. An earlier attempt may have created it without a sync.
    for (let folder = dirname(file); ; folder = dirname(folder)) {
      await syncFolder(folder);
      if (folder === this.#root) break;
    }
  }

  async *read(path: string): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of createReadStream(this.#resolve(path), { highWaterMark: 1 << 18 })) yield chunk as Buffer;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT")
        throw new BackupError("NotFound", `${path} not found`, { cause: error });
      throw error;
    }
  }

  async remove(folder: string): Promise<void> {
    await rm(this.#resolve(folder), { recursive: true, force: true });
  }

  async list(folder: string): Promise<readonly string[]> {
    try {
      const entries = await readdir(this.#resolve(folder), { withFileTypes: true });
      return entries.filter((each) => each.isFile() && !each.name.endsWith(partialSuffix)).map(({ name }) => name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    }
  }

  async removeFile(path: string): Promise<void> {
    await rm(this.#resolve(path), { force: true });
  }

  #resolve(path: string): string {
    return join(this.#root, checkedPath(path));
  }
}

async function writeAll(handle: Awaited<ReturnType<typeof open>>, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await handle.write(chunk, at)).bytesWritten;
}

/** A renamed file survives a crash of the machine only with its directory. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
