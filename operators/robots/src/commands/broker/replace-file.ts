import { chmod, chown, rename, rm, stat, writeFile } from "node:fs/promises";
import { ignoreMissing } from "../../identity/ignore-missing.ts";

/** Replaces a file, atomically if its owner can be kept. An existing file keeps its owner and mode; a new one gets `mode`. */
export async function replaceFile(path: string, content: string, mode: number): Promise<void> {
  const before = await ignoreMissing(stat(path));
  const draft = `${path}.new`;
  await rm(draft, { force: true });
  await writeFile(draft, content, { mode: mode & 0o600, flush: true });
  if (before !== undefined) {
    const { uid, gid } = await stat(draft);
    if (uid !== before.uid || gid !== before.gid) {
      try {
        await chown(draft, before.uid, before.gid);
      } catch (error) {
        if (!(error instanceof Error && "code" in error && error.code === "EPERM")) throw error;
        // Only root may give files away. Written in place, the file stays readable by the broker.
        await rm(draft, { force: true });
        await writeFile(path, content, { flush: true });
        return;
      }
    }
  }
  await chmod(draft, before === undefined ? mode : before.mode & 0o777);
  await rename(draft, path);
}
