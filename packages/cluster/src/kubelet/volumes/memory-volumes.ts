import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { quantityToBytes } from "@keelson/api-machinery/quantity";
import { isMountPoint, mountPointsBelow, removeTree } from "@keelson/execution/files";
import { plannedContainers, type PodView } from "../pod/pod-view.ts";

const run = promisify(execFile);

/**
 * The size of a volume in memory, as in Kubernetes: the smallest of its `sizeLimit`, the memory limits of the Pod's containers together
 * (if each has one), and the node's memory.
 */
export function memoryVolumeBytes(pod: PodView, sizeLimit: string | undefined, nodeMemory: string): number {
  let podBytes = 0;
  for (const { role, container } of plannedContainers(pod)) {
    const limit = quantityToBytes(container.resources?.limits?.["memory"] ?? "0");
    // A limit of 0 is none.
    if (role === "main" || role === "sidecar") podBytes += limit > 0 ? limit : Number.POSITIVE_INFINITY;
  }
  const ownBytes = sizeLimit === undefined ? 0 : quantityToBytes(sizeLimit);
  const sizeBytes = Math.min(quantityToBytes(nodeMemory), podBytes, ownBytes > 0 ? ownBytes : Number.POSITIVE_INFINITY);
  // The kernel takes a size of 0 for none, and no fractions.
  return Math.max(1, Math.floor(sizeBytes));
}

/** Mounts a file system in memory at a directory, unless it is mounted. Needs permission to mount. */
export async function mountMemory(folder: string, sizeBytes: number): Promise<void> {
  if (isMountPoint(folder)) return;
  await run("mount", ["--no-canonicalize", "-t", "tmpfs", "-o", `size=${sizeBytes},mode=0777,nosuid,nodev`, "tmpfs", folder]);
}

/** Removes the directory of a Pod with its volumes in memory, and whatever is mounted on the directory itself. */
export async function removePodFolder(folder: string): Promise<void> {
  for (const path of mountPointsBelow(folder)) await unmount(path);
  while (isMountPoint(folder)) await unmount(folder);
  await removeTree(folder);
}

/** Unmounts lazily: a program that is being killed may still use the mount. */
async function unmount(path: string): Promise<void> {
  await run("umount", ["--lazy", "--no-canonicalize", path]);
}
