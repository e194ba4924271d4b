import { existsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { ExecutionError } from "../driver.ts";
import type { ProgramGroup } from "../cgroup/program-group.ts";
import type { Driver } from "../driver.ts";
import { createBubblewrapWrapping } from "./bubblewrap-wrapping.ts";
import { createProcessLauncher } from "../process/process-launcher.ts";
import { seccompFilter, type CallProfile } from "./seccomp-filter.ts";
import { createDriver } from "../program/supervisor.ts";
import type { DriverOptions } from "../program/supervisor.ts";
import type { BindMount } from "../isolation.ts";

/** Options of {@link createBubblewrapDriver}. */
export interface BubblewrapDriverOptions extends DriverOptions {
  /**
   * Parent of the programs' cgroups, as a path below each hierarchy's mount (`/keelson/sandboxes`), created if missing. The shims run in
   * it too, so that programs survive, and can be adopted, if this process's own cgroup is killed. Default: this process's own cgroup,
   * whose limits then apply to its programs too. `false`: no cgroups.
   */
  readonly cgroupParent?: string | false;
  /** Its own cgroup for the programs, see {@link ProgramGroup}. Default: none. */
  readonly group?: ProgramGroup;
  /** Mounted into every program, in addition to its spec's binds. */
  readonly binds?: readonly BindMount[];
  /** `false`: disables the seccomp filter. Default: enabled on x86-64 and arm64, see `seccomp-filter.ts`. */
  readonly seccomp?: false;
  /** System calls that programs may make. Default `standard`. Nothing is checked without a filter. */
  readonly calls?: CallProfile;
  /** Path of bwrap. Default: found in PATH. */
  readonly bwrap?: string;
}

/** The path of bwrap, or undefined if it is not installed (`apt-get install bubblewrap`). */
export function findBubblewrap(searchPath: string = process.env.PATH ?? ""): string | undefined {
  return [...searchPath.split(delimiter), "/usr/bin", "/usr/local/bin"]
    .filter((folder) => folder.startsWith("/"))
    .map((folder) => join(folder, "bwrap"))
    .find((path) => existsSync(path));
}

/**
 * Runs programs with bubblewrap, in their own namespaces (users, mounts, processes, IPC, host name) by default with a read-only root, no
 * capabilities and no new privileges; see {@link Isolation} for what a program can see. See {@link Driver} for the guarantees of every
 * driver.
 *
 * **Root**: an image's directory, or this machine's `/usr` with a generated `/etc`. `/tmp`, `/run`, `/var/tmp` and the program's `work`
 * directory are private and writable; with a disk limit `/run`, `/dev` and `/var/tmp` are read-only. With `isRootWritable` all of the root
 * is writable. `/proc` shows its own processes only.
 *
 * **System calls**: an allow-list on x86-64 and arm64, see `system-calls.ts`; others fail with EPERM. 32-bit programs are killed.
 *
 * **Environment**: only inside. The shell and bwrap that start the program, with this process's permissions, never see it, so that LD_PRELOAD
 * and the like affect the program alone.
 *
 * **Errors**: `Unsupported` if bwrap is not installed.
 */
export async function createBubblewrapDriver(options: BubblewrapDriverOptions): Promise<Driver> {
  const bwrap = options.bwrap ?? findBubblewrap();
  if (bwrap === undefined || !existsSync(bwrap)) {
    throw new ExecutionError("Unsupported", "bwrap not found; install it with `apt-get install bubblewrap`");
  }
  return createDriver("bubblewrap", options, (dir) => {
    const bytes = options.seccomp === false ? undefined : seccompFilter(process.arch, options.calls);
    const filter = join(dir, ".seccomp");
    if (bytes !== undefined) writeFileSync(filter, bytes, { mode: 0o644 });
    return createProcessLauncher({
      spareFolder: join(dir, ".spare"),
      random: options.random,
      now: () => options.clock.now(),
      ...(options.cgroupParent !== undefined && { cgroupParent: options.cgroupParent }),
      ...(options.group !== undefined && { group: options.group }),
      ...createBubblewrapWrapping({ bwrap, binds: options.binds ?? [], ...(bytes !== undefined && { filter }) }),
    });
  });
}
