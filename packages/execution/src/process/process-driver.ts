import { join } from "node:path";
import type { ProgramGroup } from "../cgroup/program-group.ts";
import type { Driver } from "../driver.ts";
import { createProcessLauncher } from "./process-launcher.ts";
import { createDriver } from "../program/supervisor.ts";
import type { DriverOptions } from "../program/supervisor.ts";

/** Options of {@link createProcessDriver}. */
export interface ProcessDriverOptions extends DriverOptions {
  /**
   * Parent of the programs' cgroups, as a path below each hierarchy's mount (`/keelson/sandboxes`), created if missing. The shims run in
   * it too, so that programs survive, and can be adopted, if this process's own cgroup is killed. Default: this process's own cgroup,
   * whose limits then apply to its programs too. `false`: no cgroups.
   */
  readonly cgroupParent?: string | false;
  /** Its own cgroup for the programs, see {@link ProgramGroup}. Default: none. */
  readonly group?: ProgramGroup;
}

/**
 * Runs programs as plain processes: no image, no namespaces, no privileges needed. See {@link Driver} for the guarantees of every
 * driver.
 *
 * **Tree**: a program consists of its process and all descendants, including double forks. When the program's own process exits, the
 * remaining ones are killed, as in a container.
 *
 * **Environment**: that of the spec, with a default PATH, and `KEELSON_PROGRAM`, which marks the program's processes.
 *
 * **Example**
 *
 * ```ts
 * const driver = await createProcessDriver({ dir: "/var/lib/programs", clock: systemClock, random: Math.random });
 * const program = await driver.start({ id: "hello", command: ["echo", "hello"] });
 * console.log(await program.exited());
 * ```
 */
export function createProcessDriver(options: ProcessDriverOptions): Promise<Driver> {
  return createDriver("process", options, (dir) =>
    createProcessLauncher({
      spareFolder: join(dir, ".spare"),
      random: options.random,
      now: () => options.clock.now(),
      ...(options.cgroupParent !== undefined && { cgroupParent: options.cgroupParent }),
      ...(options.group !== undefined && { group: options.group }),
    }),
  );
}
