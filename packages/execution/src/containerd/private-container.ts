import { chmodSync, chownSync, lstatSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { BindMount } from "../isolation.ts";
import { StartFailure } from "../process/launcher.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import type { UserIds } from "../program/users/user.ts";
import { idRangeSize } from "./id-range.ts";
import type { OciProgram } from "./oci-spec.ts";

/** Mount points that the OCI runtime needs in every root. */
const kernelMountPoints = ["/proc", "/dev", "/run"];

/** The host ids of a user inside a container with the range that starts at `firstId`. Throws {@link StartFailure}. */
function hostIds({ uid, gid }: UserIds, firstId: number): UserIds {
  if (Math.max(uid, gid) >= idRangeSize) {
    throw new StartFailure(`could not start the program: its user and group ids must be less than ${idRangeSize}`, 126);
  }
  return { uid: firstId + uid, gid: firstId + gid };
}

/**
 * Gives the program's directories to its user. With a size limit they are file systems in memory instead, which end with the container: the
 * runtime mounts them, because containerd may not see mounts of this process.
 */
export function givePrivateFolders({ work, path }: ProgramFolder, program: OciProgram, firstId: number): OciProgram {
  const user = hostIds(program.user, firstId);
  const folders = [work, join(path, "tmp")];
  const sizeBytes = program.limits.diskBytes;
  if (sizeBytes === undefined) {
    for (const folder of folders) chownSync(folder, user.uid, user.gid);
    return program;
  }
  const isOwn = ({ source }: BindMount): boolean => folders.includes(source);
  return {
    ...program,
    binds: program.binds.filter((bind) => !isOwn(bind)),
    limitedFolders: program.binds.filter(isOwn).map(({ target }) => ({ target, sizeBytes })),
  };
}

/**
 * Creates the mount points of a root in its writable layer, which is empty apart from what this process wrote. The runtime's root, an
 * unprivileged id of the host, could not.
 */
export function createMountPoints(layer: string, { binds, limitedFolders = [] }: OciProgram): void {
  for (const { target } of limitedFolders) {
    const path = join(layer, target);
    mkdirSync(path, { recursive: true, mode: 0o755 });
    // The runtime gives a file system in memory the mode of its mount point.
    chmodSync(path, 0o1777);
  }
  for (const target of kernelMountPoints) mkdirSync(join(layer, target), { recursive: true, mode: 0o755 });
  for (const { source, target } of binds) {
    const path = join(layer, target);
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) continue;
    if (statSync(source).isDirectory()) mkdirSync(path, { recursive: true, mode: 0o755 });
    else {
      mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
      writeFileSync(path, "", { mode: 0o644 });
    }
  }
}
