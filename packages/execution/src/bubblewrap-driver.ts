import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { ExecutionError } from "./driver.ts";
import type { Driver } from "./driver.ts";
import { createBubblewrapWrapping } from "./bubblewrap-wrapping.ts";
import { createProcessLauncher } from "./process-launcher.ts";
import { createDriver } from "./supervisor.ts";
import type { DriverOptions } from "./supervisor.ts";
import type { BindMount } from "./isolation.ts";

/** Options of {@link createBubblewrapDriver}. */
export interface BubblewrapDriverOptions extends DriverOptions {
  /** Parent group of the programs' cgroups, below each hierarchy's mount; default: this process's own. `false`: no cgroups. */
  readonly cgroupRoot?: string | false;
  /** What every program sees besides what its spec says. */
  readonly binds?: readonly BindMount[];
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
  return createDriver("bubblewrap", options, (dir) =>
    createProcessLauncher({
      spareFolder: join(dir, ".spare"),
      random: options.random,
      ...(options.cgroupRoot !== undefined && { cgroupRoot: options.cgroupRoot }),
      ...createBubblewrapWrapping({ bwrap, binds: options.binds ?? [] }),
    }),
  );
}
