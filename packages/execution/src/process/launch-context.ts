import { removeCgroup } from "../cgroup/cgroup.ts";
import { cgroupView } from "../cgroup/cgroup-view.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import type { ProgramSpec } from "../driver.ts";
import type { Deadlines } from "../program/deadlines.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { own } from "../program/users/program-user.ts";
import { readExit } from "../shim/shim-exit.ts";
import type { LaunchRequest } from "./launcher.ts";
import type { ProcessList } from "./proc.ts";
import type { ProcessTree } from "./process-tree.ts";
import type { Wrapping } from "./wrapping.ts";

/** What the programs of one process launcher share. */
export interface LaunchContext {
  readonly wrapping: Partial<Wrapping>;
  /** Empty if programs get no cgroup of their own. */
  readonly hierarchies: readonly CgroupHierarchy[];
  readonly processes: ProcessList;
}

/** The request with the mounts that show the program its cgroups, if it wants them and this process is root. */
export function withCgroupView({ hierarchies }: LaunchContext, request: LaunchRequest): LaunchRequest {
  if (request.spec.isolation?.hasCgroupView !== true || own.uid !== 0) return request;
  return { ...request, cgroupView: cgroupView(hierarchies, request.folder.tag) };
}

/** Attempts to remove a cgroup that is still being reaped. */
const maxCgroupRemovals = 8;

/** The processes of a program. Without `shim`, only those that its tag or cgroup identifies. */
export function treeOf(
  { wrapping, hierarchies }: LaunchContext,
  folder: ProgramFolder,
  spec?: ProgramSpec,
  shim?: ProcessTree["shim"],
): ProcessTree {
  const { program, outsideCgroup } = readExit(folder);
  const isGrouped = program !== undefined && !outsideCgroup;
  const generations = (spec?.terminal === undefined ? 0 : 1) + (wrapping.wrap === undefined ? 0 : 2);
  return {
    tag: folder.tag,
    hierarchies,
    isGrouped,
    ...(shim !== undefined && { shim }),
    ...(program !== undefined && generations > 0 && { wrapper: { ...program, generations } }),
  };
}

/** Removes the cgroup of a terminated program, waiting for the kernel to reap its processes. */
export async function cleanUpCgroup(
  { hierarchies }: LaunchContext,
  folder: ProgramFolder,
  deadlines: Deadlines,
): Promise<void> {
  for (let attempt = 0; attempt < maxCgroupRemovals && !removeCgroup(hierarchies, folder.tag); attempt++) {
    await new Promise<void>((resolve) => void deadlines.after(2 ** attempt, resolve));
  }
}
