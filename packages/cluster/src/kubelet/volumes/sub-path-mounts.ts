import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, mkdirSync, openSync, readdirSync, rmdirSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { isMountPoint } from "@keelson/execution/files";
import { openSubPath } from "./open-sub-path.ts";

const run = promisify(execFile);

/** The attempt of a container that mounts belong to. */
export interface MountOwner {
  readonly podUid: string;
  readonly container: string;
  readonly attempt: number;
}

/**
 * Bind mounts of subpaths of volumes, at paths that no Pod can change.
 *
 * A container that mounts a subpath of a volume names a path that Pods with the same volume can change at any time, also between its
 * check and its mount by a runtime. So the subpath is opened component by component beneath the volume, and the descriptor itself is
 * bind mounted at our own path, which is what runtimes get:
 *
 *     <directory>/<pod uid>/<container>.<attempt>/<index>   bind of /proc/<our pid>/fd/<descriptor>
 *
 * The directory should be on a file system that a reboot empties, because a reboot also removes the mounts. Mount points are removed one
 * by one and never recursively, so that no content of a volume can be deleted through a mount.
 */
export class SubPathMounts {
  readonly #directory: string;

  /** `directory`: a path of this node only, see {@link subPathDirectory}. Needs permission to mount. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Mounts a subpath of a volume, created as a directory if it is missing, and returns the path to use instead. Replaces an earlier
   * mount of the same owner and index.
   *
   * @throws ContainerError that names the subpath.
   */
  async bind(owner: MountOwner, index: number, volume: string, subPath: string): Promise<string> {
    const folder = this.#folderOf(owner);
    const target = join(folder, String(index));
    await this.#remove(target);
    using opened = openSubPath(volume, subPath);
    // Searchable, since the container's user must reach the target; not readable.
    mkdirSync(folder, { recursive: true, mode: 0o711 });
    if (opened.stats.isDirectory()) mkdirSync(target, { mode: 0o711 });
    else closeSync(openSync(target, "wx", 0o600));
    const source = `/proc/${process.pid}/fd/${opened.fd}`;
    await run("mount", ["--no-canonicalize", "--bind", source, target]);
    return target;
  }

  /** Unmounts everything of an attempt of a container. */
  async release(owner: MountOwner): Promise<void> {
    await this.#removeFolder(this.#folderOf(owner));
  }

  /** Unmounts everything of a Pod. */
  async releasePod(podUid: string): Promise<void> {
    const folder = join(this.#directory, podUid);
    for (const name of entriesOf(folder)) await this.#removeFolder(join(folder, name));
    removeEmpty(folder);
  }

  /** Unmounts everything of Pods for which `isKept` is false. */
  async releaseOthers(isKept: (podUid: string) => boolean): Promise<void> {
    for (const uid of entriesOf(this.#directory)) if (!isKept(uid)) await this.releasePod(uid);
  }

  #folderOf({ podUid, container, attempt }: MountOwner): string {
    return join(this.#directory, podUid, `${container}.${attempt}`);
  }

  async #removeFolder(folder: string): Promise<void> {
    for (const name of entriesOf(folder)) await this.#remove(join(folder, name));
    removeEmpty(folder);
  }

  async #remove(target: string): Promise<void> {
    // Lazily: a program may still use it through its own mount.
    while (isMountPoint(target)) await run("umount", ["--lazy", "--no-canonicalize", target]);
    removeEmpty(target);
  }
}

/** The directory for the mounts of the node with this data directory. */
export function subPathDirectory(dataDir: string): string {
  return join("/run/keelson", createHash("sha256").update(dataDir).digest("hex").slice(0, 12), "subpaths");
}

function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Removes an empty directory or a mount point that was a file. Anything else stays. */
function removeEmpty(path: string): void {
  for (const remove of [rmdirSync, unlinkSync]) {
    try {
      remove(path);
      return;
    } catch {
      // Missing, not empty, or of the other kind.
    }
  }
}
