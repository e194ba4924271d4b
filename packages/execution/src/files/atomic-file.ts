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
 * Replaces a file atomically: a reader finds the old or the new content. With `durable` the content has reached the
 * disk when this resolves. A failure leaves no temporary file.
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
