import { execFile } from "node:child_process";
import { open, rename, rm } from "node:fs/promises";
import { promisify } from "node:util";
import { readMountPoints } from "@keelson/execution/files";
import { VolumeError } from "./volume-error.ts";

/*
 * A volume is an ext4 file system in a file of its own, so that the kernel enforces its size, and its journal keeps it consistent through
 * crashes. The whole file is allocated in advance: a volume cannot run out of space that another one has taken.
 */

const run = promisify(execFile);

/** The tools must be found, whatever the environment of the agent. */
const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" };

/** Bytes per file: the number of files is limited as in a work folder. */
const bytesPerFile = 16 * 1024;
const maxFiles = 65_536;

/** Runs a system program. **Errors**: {@link VolumeError} with what it printed. */
async function runTool(program: string, args: readonly string[], purpose: string): Promise<string> {
  try {
    const { stdout } = await run(program, [...args], { env, maxBuffer: 16 << 20 });
    return stdout;
  } catch (error) {
    const { code, stderr } = error as { readonly code?: unknown; readonly stderr?: unknown };
    if (code === "ENOENT") throw new VolumeError("Unsupported", `${program} not found; install it: apt-get install e2fsprogs`);
    const reason = typeof stderr === "string" && stderr.trim() !== "" ? stderr.trim().split("\n").at(-1) : String(error);
    throw new VolumeError("Failed", `could not ${purpose}: ${reason ?? ""}`, { cause: error });
  }
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
  readonly run = (program: string, args: readonly string[], purpose: string): Promise<string> =>
    this.#pid === "self"
      ? runTool(program, args, purpose)
      : runTool("nsenter", [`--mount=/proc/${this.#pid}/ns/mnt`, "--", program, ...args], purpose);

  /** Mounts the file of a volume, unless it is mounted. */
  async mount(image: string, folder: string): Promise<void> {
    if (this.#isMounted(folder)) return;
    // A file that is mounted elsewhere, in another namespace for instance, gets the same device again.
    await this.run("mount", ["-t", "ext4", "-o", "loop,nosuid,nodev,noatime", image, folder], "mount the volume");
  }

  /** Writes what is cached to the disk, and unmounts a volume if it is mounted. Programs that have it mounted keep it. */
  async unmount(folder: string): Promise<void> {
    if (!this.#isMounted(folder)) return;
    await this.run("sync", ["--file-system", folder], "write the volume to disk");
    await this.run("umount", [folder], "unmount the volume");
  }

  /** Unmounts all volumes below a folder. */
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

/** Creates the file of a volume. An interrupted creation leaves nothing that looks like a volume. */
export async function createImage(path: string, sizeBytes: number): Promise<void> {
  const fresh = `${path}.new`;
  await rm(fresh, { force: true });
  try {
    const file = await open(fresh, "wx", 0o600);
    await file.close();
    await runTool("fallocate", ["--length", String(sizeBytes), fresh], "allocate the volume");
    const files = Math.max(Math.min(Math.floor(sizeBytes / bytesPerFile), maxFiles), 128);
    // Discarding would free the allocated space.
    const options = ["-q", "-F", "-m", "0", "-N", String(files), "-E", "nodiscard", "-L", "keelson"];
    await runTool("mkfs.ext4", [...options, fresh], "format the volume");
    await syncFile(fresh);
    await rename(fresh, path);
  } catch (error) {
    await rm(fresh, { force: true });
    throw error;
  }
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, "r+");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
