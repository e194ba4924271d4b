import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { open, rename, rm, stat, statfs, truncate } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { readMountPoints } from "@keelson/execution/files";
import { VolumeError } from "./volume-error.ts";

/*
 * A volume is an ext4 file system in its own file, so that the kernel enforces its size, and its journal keeps it consistent through
 * crashes. The whole file is allocated in advance: a volume cannot run out of space that another one has taken.
 */

const run = promisify(execFile);

/** The tools must be found, whatever the environment of the agent. */
const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" };

/** Bytes per file: the number of files is limited as in a work directory. */
const bytesPerFile = 16 * 1024;
const maxFiles = 65_536;

/** Space of the disk that no new volume may take: the machine needs it. */
const spareBytes = 256 << 20;

/** Exit codes of e2fsck(8) after which a file system can be mounted: errors were corrected, and the machine should be restarted. */
const repaired = [1, 2] as const;

/** Runs a system program, which may also exit with a code in `accepted`. **Errors**: {@link VolumeError} with what it printed. */
async function runTool(
  program: string,
  args: readonly string[],
  purpose: string,
  accepted: readonly number[] = [],
): Promise<string> {
  try {
    const { stdout } = await run(program, [...args], { env, maxBuffer: 16 << 20 });
    return stdout;
  } catch (error) {
    const { code, stderr, stdout } = error as { readonly code?: unknown; readonly stderr?: unknown; readonly stdout?: unknown };
    if (typeof code === "number" && accepted.includes(code)) return String(stdout);
    if (code === "ENOENT")
      throw new VolumeError("Unsupported", `${program} not found; install it: apt-get install e2fsprogs util-linux`);
    throw new VolumeError("Failed", `could not ${purpose}: ${lastLine(stderr) ?? String(error)}`, { cause: error });
  }
}

/** The last line that a program printed, except for a hint of mount(8). */
function lastLine(text: unknown): string | undefined {
  if (typeof text !== "string") return undefined;
  return text
    .split("\n")
    .map((line) => line.trim())
    .findLast((line) => line !== "" && !line.startsWith("dmesg(1)"));
}

/** The mounts of volumes, in the mount namespace of whatever starts the sandboxes. */
export class VolumeMounts {
  /** A process in the namespace. */
  readonly #pid: number | "self";

  /** `pid`: a process in the namespace. Default: the namespace of this process. */
  constructor(pid: number | "self" = "self") {
    this.#pid = pid;
  }

  /** Runs a system program in the namespace. **Errors**: {@link VolumeError}. */
  readonly run = (program: string, args: readonly string[], purpose: string, accepted?: readonly number[]): Promise<string> =>
    this.#pid === "self"
      ? runTool(program, args, purpose, accepted)
      : runTool("nsenter", [`--mount=/proc/${this.#pid}/ns/mnt`, "--", program, ...args], purpose, accepted);

  /** Mounts the file of a volume, unless it is mounted. A file system that a crash has damaged is repaired if no data is at stake. */
  async mount(image: string, folder: string): Promise<void> {
    if (this.#isMounted(folder)) return;
    await this.#check(image);
    // A file that is mounted elsewhere, in another namespace for instance, gets the same device again.
    // What the kernel initializes later, after the file system has grown, it would free: the space reads as zeros as it is.
    const options = "loop,nosuid,nodev,noatime,noinit_itable,errors=remount-ro";
    await this.run("mount", ["-t", "ext4", "-o", options, image, folder], "mount the volume");
  }

  /**
   * Writes what is cached to the disk, unmounts a volume if it is mounted, and removes the mount point. Sandboxes that have the volume keep
   * it.
   */
  async unmount(folder: string): Promise<void> {
    while (this.#isMounted(folder)) {
      await this.run("sync", ["--file-system", folder], "write the volume to disk");
      await this.run("umount", [folder], "unmount the volume");
    }
    // Processes that were started meanwhile have a copy of the mount in their own namespaces. Those end with the mount point.
    if (existsSync(folder)) await this.run("rmdir", [folder], "remove the mount point of the volume");
  }

  /**
   * Grows the file of a volume and its file system: while it is mounted, if this process may. `beforeChange` is called before a file system
   * that is not mounted changes. If that is interrupted, {@link repair} it, and repeat. **Errors**: {@link VolumeError}, `InUse` if it must
   * be unmounted before.
   */
  async grow(image: string, sizeBytes: number, beforeChange: () => Promise<void>): Promise<void> {
    const device = await this.#deviceOf(image);
    if (device !== "" && !canGrowMounted())
      throw new VolumeError(
        "InUse",
        "the volume will grow once its sandboxes have ended: without CAP_SYS_RESOURCE the agent cannot resize it while it is in use",
      );
    const { size, blocks } = await stat(image);
    await requireSpace(dirname(image), sizeBytes - blocks * 512);
    try {
      await runTool("fallocate", ["--length", String(sizeBytes), image], "allocate the volume");
    } catch (error) {
      // The file system has no part of what was allocated now.
      await truncate(image, size);
      throw error;
    }
    const purpose = "grow the file system of the volume";
    if (device === "") {
      await this.#runAlone(image, "e2fsck", ["-f", "-p", image], "check the volume", repaired);
      await beforeChange();
      await this.#runAlone(image, "resize2fs", [image], purpose);
    } else {
      // The kernel's journal protects the change.
      await this.run("losetup", ["--set-capacity", device], "grow the device of the volume");
      await this.run("resize2fs", [device], purpose);
    }
    await sync(image);
  }

  /**
   * Repairs the file system of a volume whose growth was interrupted while it was not mounted. Its files do not change: what is inconsistent
   * describes the new space. **Errors**: {@link VolumeError}.
   */
  async repair(image: string): Promise<void> {
    if ((await this.#deviceOf(image)) !== "")
      throw new VolumeError("InUse", "the volume is mounted; its growth was interrupted");
    await this.#runAlone(image, "e2fsck", ["-f", "-y", image], "repair the volume", repaired);
    await sync(image);
  }

  /** Runs a program on the file of a volume once no program of an agent that has crashed changes it. */
  #runAlone(
    image: string,
    program: string,
    args: readonly string[],
    purpose: string,
    accepted?: readonly number[],
  ): Promise<string> {
    return this.run("flock", [image, program, ...args], purpose, accepted);
  }

  /** The loop device of a file; empty without one. */
  async #deviceOf(image: string): Promise<string> {
    const find = ["--noheadings", "--output", "NAME", "--associated", image];
    const [device = ""] = (await this.run("losetup", find, "find the device of the volume")).trim().split("\n");
    return device.trim();
  }

  /** Repairs a file system, unless it is mounted anywhere. Returns quickly if it was unmounted cleanly. */
  async #check(image: string): Promise<void> {
    if ((await this.#deviceOf(image)) !== "") return;
    try {
      await this.#runAlone(image, "e2fsck", ["-p", image], "check the volume", repaired);
    } catch (error) {
      if (!(error instanceof VolumeError) || error.code !== "Failed") throw error;
      throw new VolumeError("Failed", `the file system of the volume is damaged; repair it with: e2fsck -f ${image}`, {
        cause: error,
      });
    }
  }

  /** Unmounts all volumes below a directory. */
  async unmountBelow(folder: string): Promise<void> {
    for (const path of this.#points().filter((point) => point.startsWith(`${folder}/`))) await this.unmount(path);
  }

  #isMounted(folder: string): boolean {
    return this.#points().includes(folder);
  }

  #points(): readonly string[] {
    return readMountPoints(this.#pid);
  }
}

/** CAP_SYS_RESOURCE, see capabilities(7). */
const resourceCapability = 24n;

/** Whether this process may grow a file system that is mounted. */
export function canGrowMounted(): boolean {
  const effective = /^CapEff:\s+([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1] ?? "0";
  return ((BigInt(`0x${effective}`) >> resourceCapability) & 1n) === 1n;
}

/** Creates the file of a volume. An interrupted creation leaves nothing that looks like a volume. **Errors**: {@link VolumeError}. */
export async function createImage(path: string, sizeBytes: number): Promise<void> {
  const fresh = `${path}.new`;
  const folder = dirname(path);
  await rm(fresh, { force: true });
  await requireSpace(folder, sizeBytes);
  try {
    const file = await open(fresh, "wx", 0o600);
    await file.close();
    await runTool("fallocate", ["--length", String(sizeBytes), fresh], "allocate the volume");
    const files = Math.max(Math.min(Math.floor(sizeBytes / bytesPerFile), maxFiles), 128);
    // Discarding, and the kernel when it initializes what mkfs leaves for later, would free allocated space.
    const options = [
      "-q",
      "-F",
      "-m",
      "0",
      "-N",
      String(files),
      "-E",
      "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
      "-L",
      "keelson",
    ];
    await runTool("mkfs.ext4", [...options, fresh], "format the volume");
    await sync(fresh);
    await rename(fresh, path);
    await sync(folder);
    await sync(dirname(folder));
  } catch (error) {
    await rm(fresh, { force: true });
    throw error;
  }
}

/** Rejects before a volume that does not fit takes the rest of the disk for a moment. */
async function requireSpace(folder: string, sizeBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const freeBytes = Math.max(bavail * bsize - spareBytes, 0);
  if (sizeBytes <= freeBytes) return;
  const [wanted, free] = [sizeBytes, freeBytes].map((bytes) => Math.floor(bytes / 2 ** 20));
  throw new VolumeError("Failed", `could not allocate the volume: ${wanted} MiB requested, ${free} MiB available`);
}

/** Writes a file or the entries of a directory to the disk. */
async function sync(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
