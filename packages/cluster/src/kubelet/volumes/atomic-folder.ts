import { chmod, chown, mkdir, readdir, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { removeTree } from "@keelson/execution/files";

/** A file of a volume. */
export interface VolumeFile {
  readonly content: Uint8Array | string;
  readonly mode: number;
}

/** Whether a relative path stays within its volume, by Kubernetes' rules. */
export function isInside(path: string): boolean {
  return path !== "" && !path.startsWith("/") && !path.split("/").some((part) => part === ".." || part === "");
}

/**
 * Replaces the files of a directory atomically, as the kubelet's AtomicWriter does: files are in a versioned directory that `..data` points
 * to, visible names are links through `..data`, and one rename switches versions. A reader sees the old files or the new ones, never
 * a mix. Does nothing if `version` is current.
 */
export async function writeAtomicFolder(
  folder: string,
  files: ReadonlyMap<string, VolumeFile>,
  version: string,
  owner?: { readonly uid: number; readonly gid: number },
): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o755 });
  const data = `..${version}`;
  const before = await readlink(join(folder, "..data")).catch(() => undefined);
  if (before === data) return;
  const target = join(folder, data);
  await removeTree(target);
  await mkdir(target, { mode: 0o755 });
  for (const [path, { content, mode }] of files) {
    const file = join(target, path);
    await mkdir(dirname(file), { recursive: true, mode: 0o755 });
    await writeFile(file, content);
    await chmod(file, mode);
    if (owner !== undefined) await chown(file, owner.uid, owner.gid);
  }
  const link = join(folder, "..data_tmp");
  await rm(link, { force: true });
  await symlink(data, link);
  await rename(link, join(folder, "..data"));
  const names = new Set([...files.keys()].map((path) => path.split("/")[0] ?? ""));
  for (const name of names) {
    await symlink(join("..data", name), join(folder, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
  for (const entry of await readdir(folder)) {
    const isOld = entry.startsWith("..") ? entry !== "..data" && entry !== data : !names.has(entry);
    if (isOld) await removeTree(join(folder, entry));
  }
}
