import { join } from "node:path";
import { openBeneath, PathError } from "@keelson/execution/files";
import type { NodeContext } from "../node-context.ts";
import type { ContainerView, PodView } from "../pod/pod-view.ts";
import { isInside } from "../volumes/atomic-folder.ts";
import type { Mount } from "../volumes/mount-plan.ts";
import { isAddedMount } from "../volumes/token-volume.ts";
import { openSubPath } from "../volumes/open-sub-path.ts";
import { configError } from "./container-error.ts";
import { expand } from "./expand.ts";

/** What the mounts of a container's attempt are derived from. */
export interface MountRequest {
  readonly pod: PodView;
  readonly container: ContainerView;
  readonly attempt: number;
  readonly env: Readonly<Record<string, string>>;
  /** Volume directories by name. */
  readonly volumes: ReadonlyMap<string, string>;
  /** Whether the runtime is not the node's own processes. */
  readonly isIsolated: boolean;
}

/**
 * The mounts of a container's `volumeMounts`. Subpaths are resolved by descriptor (see `SubPathMounts`), so that a Pod that replaces
 * links at any time cannot reach a path outside its volumes. Volumes that the kubelet writes (configMap, secret, downwardAPI,
 * projected) are mounted read-only, as in Kubernetes.
 *
 * @throws ContainerError
 */
export async function containerMounts(node: NodeContext, request: MountRequest): Promise<Mount[]> {
  const { pod, container, env, volumes } = request;
  const podDir = join(node.podsDir, pod.metadata.uid ?? "");
  const mounts: Mount[] = [];
  for (const [index, mount] of (container.volumeMounts ?? []).entries()) {
    // A process on a node without permission to mount can do without the token that it did not ask for.
    if (!node.canMount && !request.isIsolated && isAddedMount(mount)) continue;
    const folder = volumes.get(mount.name);
    if (folder === undefined) throw configError(`volumeMounts: volume ${JSON.stringify(mount.name)} not found`);
    const isReadOnly = mount.readOnly === true || isWrittenByKubelet(pod, mount.name);
    const subPath = expand((mount as { readonly subPathExpr?: string }).subPathExpr ?? mount.subPath ?? "", env, "subPathExpr");
    const path = mount.mountPath.startsWith("/") ? mount.mountPath.replace(/\/+$/, "") : join("/", mount.mountPath);
    if (path === "" || podDir === path) {
      throw configError(
        `volumeMounts: mountPath ${JSON.stringify(mount.mountPath)} must not be "/" or the pod's own directory`,
      );
    }
    const source = subPath === "" ? folder : await subPathSource(node, request, { index, folder, subPath, isReadOnly });
    mounts.push({ source, path, readOnly: isReadOnly });
  }
  for (const mount of mounts) createMountPoint(mount, mounts);
  return mounts;
}

async function subPathSource(
  node: NodeContext,
  { pod, container, attempt, isIsolated }: MountRequest,
  mount: { readonly index: number; readonly folder: string; readonly subPath: string; readonly isReadOnly: boolean },
): Promise<string> {
  const { index, folder, subPath, isReadOnly } = mount;
  if (!isInside(subPath)) throw configError(`volumeMounts: subPath ${JSON.stringify(subPath)} must stay within the volume`);
  const owner = { podUid: pod.metadata.uid ?? "", container: container.name, attempt };
  if (node.subPaths !== undefined) return node.subPaths.bind(owner, index, folder, subPath);
  // Without permission to mount, a path has to do. Only the kubelet can change links in the volumes that it writes.
  if (isIsolated && !isReadOnly) {
    throw configError(
      `volumeMounts: subPath ${JSON.stringify(subPath)} of a writable volume requires a node that runs as root`,
    );
  }
  using _checked = openSubPath(folder, subPath);
  return join(folder, subPath);
}

/** Creates the mount point of a mount within another one, so that no runtime creates it through links of a Pod. */
function createMountPoint(mount: Mount, mounts: readonly Mount[]): void {
  const outer = mounts
    .filter(({ path, readOnly }) => mount.path.startsWith(`${path}/`) && !readOnly)
    .toSorted((a, b) => b.path.length - a.path.length)[0];
  if (outer === undefined) return;
  try {
    using source = openBeneath("/", mount.source.slice(1));
    const kind = source.stats.isDirectory() ? "directory" : "file";
    using _point = openBeneath(outer.source, mount.path.slice(outer.path.length + 1), {
      kind,
      create: { directoryMode: 0o755, fileMode: 0o644 },
    });
  } catch (error) {
    if (!(error instanceof PathError)) throw error;
    throw configError(`volumeMounts: mountPath ${JSON.stringify(mount.path)} must stay within ${outer.path}: ${error.message}`);
  }
}

/** Volumes whose files the kubelet keeps up to date. */
function isWrittenByKubelet({ spec }: PodView, name: string): boolean {
  const volume = spec.volumes?.find((each) => each.name === name);
  if (volume === undefined) return false;
  return [volume.configMap, volume.secret, volume.downwardAPI, volume.projected].some((source) => source !== undefined);
}
