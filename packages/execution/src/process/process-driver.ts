import { join } from "node:path";
import type { Driver } from "../driver.ts";
import { createProcessLauncher } from "./process-launcher.ts";
import { createDriver } from "../program/supervisor.ts";
import type { DriverOptions } from "../program/supervisor.ts";

/** Options of {@link createProcessDriver}. */
export interface ProcessDriverOptions extends DriverOptions {
  /**
   * Group below which programs have their cgroups, as a path below each hierarchy's mount (`/keelson/sandboxes`), made where it is not
   * there. What watches a program is in there too, so that programs go on, and are found again, also where this process's own cgroup is
   * killed as a whole. Default: this process's own group, whose limits hold for its programs too. `false`: no cgroups.
   */
  readonly cgroupParent?: string | false;
}

/**
 * Runs programs as plain processes: no image, no namespace, no privilege needed. See {@link Driver} for what holds for every
 * driver.
 *
 * **Tree**: a program is its process and all that descend from it, also by double fork. When the program's own process ends,
 * what it left behind is killed, as in a container.
 *
 * **Environment**: as the spec says, with a PATH if it has none, and `KEELSON_PROGRAM`, by which its processes are found.
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
    }),
  );
}
