import { execFile } from "node:child_process";
import { chmod, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { UserIds } from "@keelson/execution";
import { isMountPoint } from "@keelson/execution/files";
import { formatOwnBytes } from "../eviction/own-bytes.ts";

const run = promisify(execFile);

/** Options of {@link mountRootOverlay}. */
export interface RootOverlayOptions {
  /** The directory of an unpacked image, which stays unchanged. */
  readonly image: string;
  /** A directory of the container's own, for its changes. */
  readonly folder: string;
  /** Who owns the files that the image has for root. Default: the host's root. */
  readonly owner: UserIds | undefined;
  /** Counts the bytes below a directory; undefined if that fails. Present if what the container writes is limited: the changes of owner do not count. */
  readonly measure?: ((folder: string) => Promise<number | undefined>) | undefined;
}

/** File in the container's directory: once it exists, the owner has been changed. It may hold the bytes that the change took on the disk. */
export const ownedMarker = "owned";

/**
 * Mounts an image and a container's changes to it as one file system, and returns where. Calling it again, even after a crash or a restart
 * of the machine, finds the changes. Needs permission to mount; rejects if the file system of `folder` cannot hold changes of an overlay.
 */
export async function mountRootOverlay({ image, folder, owner, measure }: RootOverlayOptions): Promise<string> {
  const [changes, work, root] = ["changes", "work", "root"].map((name) => join(folder, name)) as [string, string, string];
  // mount(8) and the kernel give these characters a meaning.
  const unusual = [image, folder].find((path) => /[:,\\"]/.test(path));
  if (unusual !== undefined) throw new Error(`${unusual}: paths with a colon, comma, quote or backslash cannot be overlaid`);
  if (!isMountPoint(root)) {
    for (const path of [changes, work, root]) await mkdir(path, { recursive: true });
    await chmod(changes, (await stat(image)).mode & 0o7777);
    // A change of owner copies no content.
    const options = `lowerdir=${image},upperdir=${changes},workdir=${work},metacopy=on,nosuid,nodev`;
    await run("mount", ["--no-canonicalize", "-t", "overlay", "-o", options, "keelson-root", root]);
  }
  const marker = join(folder, ownedMarker);
  const isOwned = await stat(marker).then(
    () => true,
    () => false,
  );
  if (owner !== undefined && !isOwned) {
    await run("chown", ["--no-dereference", "--recursive", "--from=0", `${owner.uid}:${owner.gid}`, root]);
    await writeFile(marker, formatOwnBytes(await measure?.(changes)));
  }
  return root;
}
