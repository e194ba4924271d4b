import { existsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { ExecutionError } from "../driver.ts";
import type { Driver } from "../driver.ts";
import { createBubblewrapWrapping } from "./bubblewrap-wrapping.ts";
import { createProcessLauncher } from "../process/process-launcher.ts";
import { seccompFilter } from "./seccomp-filter.ts";
import { createDriver } from "../program/supervisor.ts";
import type { DriverOptions } from "../program/supervisor.ts";
import type { BindMount } from "../isolation.ts";

/** Options of {@link createBubblewrapDriver}. */
export interface BubblewrapDriverOptions extends DriverOptions {
  /**
   * Group below which programs have their cgroups, as a path below each hierarchy's mount (`/keelson/sandboxes`), made where it is not
   * there. What watches a program is in there too, so that programs go on, and are found again, also where this process's own cgroup is
   * killed as a whole. Default: this process's own group, whose limits hold for its programs too. `false`: no cgroups.
   */
  readonly cgroupParent?: string | false;
  /** What every program sees besides what its spec says. */
  readonly binds?: readonly BindMount[];
  /** `false`: without the filter of system calls. Default: with it, on x86-64 and arm64 (see `seccomp-filter.ts`). */
  readonly seccomp?: false;
  /** The program `bwrap`. Default: found in PATH. */
  readonly bwrap?: string;
}

/** Where `bwrap` is on this machine, or undefined where it is not installed (`apt-get install bubblewrap`). */
export function findBubblewrap(searchPath: string = process.env.PATH ?? ""): string | undefined {
  return [...searchPath.split(delimiter), "/usr/bin", "/usr/local/bin"]
    .filter((folder) => folder.startsWith("/"))
    .map((folder) => join(folder, "bwrap"))
    .find((path) => existsSync(path));
}

/**
 * Runs programs in namespaces of their own (users, mounts, processes, IPC, host name) with a read-only root, no capability and no
 * way to new privileges, by bubblewrap; see {@link Isolation} for what a program sees. See {@link Driver} for what holds for
 * every driver.
 *
 * **Root**: an image's folder, or this machine's `/usr`, `/etc` and what belongs to them. `/tmp`, `/run`, `/var/tmp` and the
 * program's `work` folder are its own and writable. `/proc` shows its own processes only.
 *
 * **System calls** that mount, enter or make namespaces, load code into the kernel, or set clocks are refused with EPERM, on x86-64
 * and arm64; 32-bit programs end at once.
 *
 * **Environment**: only inside. What starts the program (a shell and bwrap, with this process's rights) never sees it, so
 * LD_PRELOAD and its like act on the program alone.
 *
 * **Errors**: `Unsupported` where there is no bwrap.
 */
export async function createBubblewrapDriver(options: BubblewrapDriverOptions): Promise<Driver> {
  const bwrap = options.bwrap ?? findBubblewrap();
  if (bwrap === undefined || !existsSync(bwrap)) {
    throw new ExecutionError("Unsupported", "There is no bwrap on this machine: install it with `apt-get install bubblewrap`");
  }
  return createDriver("bubblewrap", options, (dir) => {
    const bytes = options.seccomp === false ? undefined : seccompFilter();
    const filter = join(dir, ".seccomp");
    if (bytes !== undefined) writeFileSync(filter, bytes, { mode: 0o644 });
    return createProcessLauncher({
      spareFolder: join(dir, ".spare"),
      random: options.random,
      now: () => options.clock.now(),
      ...(options.cgroupParent !== undefined && { cgroupParent: options.cgroupParent }),
      ...createBubblewrapWrapping({ bwrap, binds: options.binds ?? [], ...(bytes !== undefined && { filter }) }),
    });
  });
}
