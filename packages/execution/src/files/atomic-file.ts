import { renameSync, writeFileSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Replaces a file so that a reader finds the old or the new content, never a part. `durable` says that it has reached the
 * disk when this resolves. Nothing is left behind when it fails.
 */
export async function writeFileAtomic(path: string, text: string, options: { readonly durable: boolean }): Promise<void> {
  const fresh = `${path}.new`;
  try {
    if (!options.durable) {
      // A small file in the page cache: a turn of the event loop would take longer.
      writeFileSync(fresh, text, { mode: 0o600 });
      renameSync(fresh, path);
      return;
    }
    const handle = await open(fresh, "w", 0o600);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(fresh, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(fresh, { force: true });
    throw error;
  }
}
