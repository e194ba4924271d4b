import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import type { BindMount } from "../isolation.ts";
import type { CgroupHierarchy } from "./cgroup-hierarchies.ts";

/** Where programs look for cgroups. */
const viewFolder = "/sys/fs/cgroup";

/**
 * The read-only mounts that show a program its own cgroups, as OCI runtimes do: in version 1 one directory per controller, else one for all.
 * On a machine with both, the controllers of version 1 count. Hierarchies in which the program has no cgroup are left out.
 */
export function cgroupView(hierarchies: readonly CgroupHierarchy[], name: string): readonly BindMount[] {
  const own = hierarchies
    .map((hierarchy) => ({ ...hierarchy, source: join(hierarchy.parent, name) }))
    .filter(({ source }) => existsSync(source));
  const legacy = own.filter(({ version }) => version === 1);
  if (legacy.length === 0) return own.map(({ source }) => ({ source, target: viewFolder })).slice(0, 1);
  return legacy.flatMap(({ source, mount, controllers }) =>
    // A mount with several controllers is also known by the name of each.
    [...new Set([basename(mount), ...controllers])].map((each) => ({ source, target: join(viewFolder, each) })),
  );
}
