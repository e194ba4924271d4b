import { mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ServerFiles } from "../server/server-files.ts";
import type { BaseBackupSink } from "./base-backup.ts";

/** Writes the files of a base backup into a directory that the server can use. The caller makes them durable. */
export function folderSink(folder: string, files: ServerFiles): BaseBackupSink {
  const createFolder = async (path: string): Promise<void> => {
    const first = await mkdir(join(folder, path), { recursive: true, mode: 0o700 });
    if (first === undefined) return;
    for (let each = join(folder, path); each.length >= first.length; each = dirname(each)) await files.own(each);
  };
  return {
    createFolder,
    async writeFile(path, data) {
      await createFolder(dirname(path));
      const file = await open(join(folder, path), "w", 0o600);
      try {
        for await (const chunk of data) await writeAll(file, chunk);
      } finally {
        await file.close();
      }
      await files.own(join(folder, path));
    },
  };
}

async function writeAll(file: Awaited<ReturnType<typeof open>>, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
}
