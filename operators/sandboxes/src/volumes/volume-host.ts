import { existsSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { privateUserOf } from "@keelson/execution";
import { readMountPoints } from "@keelson/execution/files";
import { VolumeError } from "./volume-error.ts";
import { VolumeMounts } from "./volume-image.ts";
import type { VolumeMount } from "./volume-mount.ts";
import type { IdRange } from "./volume-owner.ts";

/* What volumes depend on: the driver, its users, and the mount namespaces of the agent and of the sandboxes. */

/** Why agents of this driver and user cannot have volumes; undefined if they can. */
export function volumeSupportProblem(driver: string): string | undefined {
  if (driver === "process") return "volumes require the bubblewrap or containerd driver";
  return process.getuid?.() === 0 ? undefined : "volumes require an agent that runs as root";
}

/** Directory with the mounts of an agent's volumes, below its own. */
export const volumeMountsOf = (agentDir: string): string => join(agentDir, "volumes");

/**
 * Unmounts the volumes of an agent whose programs have been stopped. Rejects unless all are unmounted: removing the agent's directory would
 * remove their files.
 */
export async function unmountVolumes(agentDir: string): Promise<void> {
  if (!existsSync(agentDir)) return;
  const folder = volumeMountsOf(realpathSync(agentDir));
  await new VolumeMounts().unmountBelow(folder);
  const host = hostMounts();
  if (host !== undefined) await host.unmountBelow(folder);
}

/** The mounts of the machine, if this process has its own mount namespace. */
export function hostMounts(): VolumeMounts | undefined {
  try {
    return readlinkSync("/proc/1/ns/mnt") === readlinkSync("/proc/self/ns/mnt") ? undefined : new VolumeMounts(1);
  } catch {
    // Not root, or a system without namespaces.
    return undefined;
  }
}

/** Rejects unless a container, by its first process, has the volumes that it is to have: containerd may not see what an agent mounts. */
export function checkContainer(pid: number, mounts: readonly VolumeMount[]): void {
  const points = readMountPoints(pid, "ext4");
  const missing = mounts.find(({ mountPath }) => !points.includes(mountPath));
  if (missing !== undefined)
    throw new VolumeError("Unsupported", `containerd does not see the volume ${missing.name}, which this agent has mounted`);
}

/** The ids of a sandbox of `bubblewrap` with volumes: one of its own. */
export const sandboxIds = (scope: string): IdRange => ({ first: privateUserOf(scope).uid, size: 1 });

/** The ids of a container with a user namespace, by a process in it. */
export function containerIds(pid: number): IdRange {
  const [, first = 0, size = 0] = readFileSync(`/proc/${pid}/uid_map`, "latin1").trim().split(/\s+/).map(Number);
  if (first === 0 || size === 0) throw new VolumeError("Unsupported", "volumes require a container with its own user ids");
  return { first, size };
}
