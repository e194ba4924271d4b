import { chownSync, lstatSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { BindMount } from "../isolation.ts";
import { StartFailure } from "../process/launcher.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { mountQuota } from "../program/size-limit.ts";
import type { UserIds } from "../program/user.ts";
import { idRangeSize } from "./id-range.ts";

/** Mount points that the OCI runtime needs in every root. */
const kernelMountPoints = ["/proc", "/dev", "/run"];

/** The host ids of a user inside a container with the range that starts at `firstId`. Throws {@link StartFailure}. */
export function hostIds({ uid, gid }: UserIds, firstId: number): UserIds {
  if (Math.max(uid, gid) >= idRangeSize) {
    throw new StartFailure(`could not start the program: its user and group ids must be less than ${idRangeSize}`, 126);
  }
  return { uid: firstId + uid, gid: firstId + gid };
}

/** Gives the program's folders to its user, with a size limit if it has one. */
export async function givePrivateFolders(
  { work, path }: ProgramFolder,
  user: UserIds,
  diskBytes: number | undefined,
): Promise<void> {
  const folders = [work, join(path, "tmp")];
  for (const folder of folders) mkdirSync(folder, { recursive: true, mode: 0o755 });
  if (diskBytes !== undefined) await mountQuota(folders, user, diskBytes);
  else for (const folder of folders) chownSync(folder, user.uid, user.gid);
}

/**
 * Creates the mount points of a root in its writable layer, which is empty apart from what this process wrote. The runtime's root, an
 * unprivileged id of the host, could not.
 */
export function createMountPoints(layer: string, binds: readonly BindMount[]): void {
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
