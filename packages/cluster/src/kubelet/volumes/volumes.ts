import { createHash } from "node:crypto";
import { chmod, chown, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { Volume } from "@keelson/api-machinery/kinds";
import { isInside, type VolumeFile, writeAtomicFolder } from "./atomic-folder.ts";
import { podField, resourceField } from "../container/environment.ts";
import type { UserIds } from "@keelson/execution";
import type { PodView } from "../pod/pod-view.ts";
import { memoryVolumeBytes, mountMemory } from "./memory-volumes.ts";
import { tokenVolumeName } from "./token-volume.ts";

/** The directory of a claim's volume. */
export interface ClaimFolder {
  readonly path: string;
  /** As in `hostPath.type`. */
  readonly type?: string;
  /** Whether a missing path is an error rather than created: that of a `local` volume, whose disk may not be mounted. */
  readonly mustExist?: boolean;
  /** Whether it was provisioned for the claim, so that every user of the claim may write to it. */
  readonly isProvisioned?: boolean;
}

/** Sources of volume content. Functions return `undefined` for a missing object. */
export interface VolumeSources {
  configMap(namespace: string, name: string): Promise<ReadonlyMap<string, Uint8Array> | undefined>;
  secret(namespace: string, name: string): Promise<ReadonlyMap<string, Uint8Array> | undefined>;
  /** The directory of a claim's volume. Throws {@link VolumeError} while the claim is not bound. */
  claimFolder(namespace: string, claim: string): Promise<ClaimFolder>;
  token(pod: PodView, options: { readonly audience?: string; readonly expirationSeconds: number }): Promise<string>;
  /** The CA in PEM, written as `ca.crt` alongside the default token. */
  readonly authority?: string | undefined;
  readonly podIP: string;
  readonly hostIP: string;
  readonly nodeName: string;
  readonly nodeLimits: { readonly cpu: string; readonly memory: string };
  /** Whether volumes with `medium: Memory` are mounted in memory. They are directories otherwise. */
  readonly canMount?: boolean | undefined;
  /** The host user of the Pod's containers that run as root. Default: this process's own. */
  readonly user?: UserIds | undefined;
}

/** Why a volume cannot be set up, for the `FailedMount` event. */
export class VolumeError extends Error {
  override readonly name = "VolumeError";
  readonly code: VolumeErrorCode;

  constructor(code: VolumeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** `SetUpFailed` has the reason as its cause. */
export type VolumeErrorCode = "NotFound" | "NotBound" | "Unsupported" | "InvalidPath" | "SetUpFailed";

interface FileItem {
  readonly key: string;
  readonly path: string;
  readonly mode?: number;
}
interface DownwardItem {
  readonly path: string;
  readonly mode?: number;
  readonly fieldRef?: { readonly fieldPath: string };
  readonly resourceFieldRef?: { readonly resource: string; readonly containerName?: string; readonly divisor?: string };
}
interface Projection {
  readonly configMap?: { readonly name?: string; readonly items?: readonly FileItem[]; readonly optional?: boolean };
  readonly secret?: { readonly name?: string; readonly items?: readonly FileItem[]; readonly optional?: boolean };
  readonly downwardAPI?: { readonly items?: readonly DownwardItem[] };
  readonly serviceAccountToken?: { readonly path: string; readonly audience?: string; readonly expirationSeconds?: number };
}

const defaultMode = 0o644;

/**
 * Creates a Pod's volumes, or updates those with files (configMap, secret, downwardAPI, projected), and returns the directory of each.
 * Calling it again changes only what differs.
 *
 * @throws VolumeError that names the volume.
 */
export async function prepareVolumes(
  pod: PodView,
  folder: string,
  sources: VolumeSources,
): Promise<ReadonlyMap<string, string>> {
  const folders = new Map<string, string>();
  for (const volume of pod.spec.volumes ?? []) {
    try {
      folders.set(volume.name, await prepareVolume(pod, volume, join(folder, volume.name), sources));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new VolumeError("SetUpFailed", `MountVolume.SetUp failed for volume ${JSON.stringify(volume.name)} : ${reason}`, {
        cause: error,
      });
    }
  }
  return folders;
}

async function prepareVolume(
  pod: PodView,
  volume: DeepReadonly<Volume>,
  folder: string,
  sources: VolumeSources,
): Promise<string> {
  const namespace = pod.metadata.namespace ?? "";
  const owner = ownerOf(pod, sources.user);
  const files = new Map<string, VolumeFile>();
  const write = async (): Promise<string> => {
    await writeAtomicFolder(folder, files, versionOf(files, owner), owner);
    return folder;
  };
  if (volume.hostPath !== undefined) return hostPath(volume.hostPath);
  if (volume.persistentVolumeClaim !== undefined) {
    const claimed = await sources.claimFolder(namespace, volume.persistentVolumeClaim.claimName);
    return hostPath(claimed, claimed.isProvisioned === true ? 0o777 : 0o755);
  }
  if (volume.configMap !== undefined) {
    const { name = "", items, defaultMode: mode = defaultMode, optional } = volume.configMap;
    addItems(files, await sources.configMap(namespace, name), items, mode, optional, `configmap ${JSON.stringify(name)}`);
    return write();
  }
  if (volume.secret !== undefined) {
    const { secretName = "", items, defaultMode: mode = defaultMode, optional } = volume.secret;
    addItems(files, await sources.secret(namespace, secretName), items, mode, optional, `secret ${JSON.stringify(secretName)}`);
    return write();
  }
  if (volume.downwardAPI !== undefined) {
    addDownward(files, pod, volume.downwardAPI.items, volume.downwardAPI.defaultMode, sources);
    return write();
  }
  if (volume.projected !== undefined) {
    const mode = volume.projected.defaultMode ?? defaultMode;
    for (const source of (volume.projected.sources ?? []) as readonly Projection[]) {
      await addProjection(files, pod, source, mode, sources);
    }
    if (volume.name === tokenVolumeName && sources.authority !== undefined) {
      add(files, "ca.crt", { content: sources.authority, mode });
    }
    return write();
  }
  const kind = Object.keys(volume).find((key) => key !== "name") ?? "emptyDir";
  if (kind !== "emptyDir") throw new VolumeError("Unsupported", `volumes of type ${kind} are not supported on this node`);
  await mkdir(folder, { recursive: true });
  if (volume.emptyDir?.medium === "Memory" && sources.canMount === true) {
    await mountMemory(folder, memoryVolumeBytes(pod, volume.emptyDir.sizeLimit, sources.nodeLimits.memory));
  }
  await chmod(folder, 0o777);
  if (pod.spec.securityContext?.fsGroup !== undefined && process.getuid?.() === 0) {
    await chown(folder, 0, pod.spec.securityContext.fsGroup);
  }
  return folder;
}

/** The owner of a volume's files, so that the Pod's user can read them. */
function ownerOf(pod: PodView, root: UserIds | undefined): UserIds | undefined {
  const { runAsUser = 0, fsGroup } = pod.spec.securityContext ?? {};
  if (process.getuid?.() !== 0 || (runAsUser === 0 && fsGroup === undefined)) return root;
  return { uid: runAsUser === 0 ? (root?.uid ?? 0) : runAsUser, gid: fsGroup ?? 0 };
}

/** Checks a path of the node. `mode` is that of a directory that it creates. */
async function hostPath({ path, type = "", mustExist = false }: ClaimFolder, mode = 0o755): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined && mustExist) throw new VolumeError("NotFound", `path ${JSON.stringify(path)} does not exist`);
  // Container runtimes create the source of a mount that is not checked.
  if (found === undefined && (type === "" || type === "DirectoryOrCreate")) {
    await mkdir(path, { recursive: true, mode: 0o755 });
    await chmod(path, mode);
  } else if (found === undefined && type === "FileOrCreate") await writeFile(path, "", { flag: "a" });
  else if (found === undefined) throw new VolumeError("NotFound", `hostPath type check failed: ${path} does not exist`);
  else if (type.startsWith("Directory") && !found.isDirectory())
    throw new VolumeError("InvalidPath", `hostPath type check failed: ${path} is not a directory`);
  else if (type.startsWith("File") && !found.isFile())
    throw new VolumeError("InvalidPath", `hostPath type check failed: ${path} is not a file`);
  return path;
}

async function addProjection(
  files: Map<string, VolumeFile>,
  pod: PodView,
  source: Projection,
  mode: number,
  sources: VolumeSources,
): Promise<void> {
  const namespace = pod.metadata.namespace ?? "";
  if (source.configMap !== undefined) {
    const { name = "", items, optional } = source.configMap;
    addItems(files, await sources.configMap(namespace, name), items, mode, optional, `configmap ${JSON.stringify(name)}`);
  }
  if (source.secret !== undefined) {
    const { name = "", items, optional } = source.secret;
    addItems(files, await sources.secret(namespace, name), items, mode, optional, `secret ${JSON.stringify(name)}`);
  }
  if (source.downwardAPI !== undefined) addDownward(files, pod, source.downwardAPI.items, mode, sources);
  if (source.serviceAccountToken !== undefined) {
    const { path, audience, expirationSeconds = 3600 } = source.serviceAccountToken;
    const token = await sources.token(pod, { ...(audience === undefined ? {} : { audience }), expirationSeconds });
    add(files, path, { content: token, mode: pod.spec.securityContext?.runAsUser ? 0o600 : mode });
  }
}

function addItems(
  files: Map<string, VolumeFile>,
  data: ReadonlyMap<string, Uint8Array> | undefined,
  items: readonly FileItem[] | undefined,
  mode: number,
  optional: boolean | undefined,
  what: string,
): void {
  if (data === undefined) {
    if (optional === true) return;
    throw new VolumeError("NotFound", `${what} not found`);
  }
  if (items === undefined || items.length === 0) {
    for (const [key, content] of data) add(files, key, { content, mode });
    return;
  }
  for (const item of items) {
    const content = data.get(item.key);
    if (content !== undefined) add(files, item.path, { content, mode: item.mode ?? mode });
    else if (optional !== true) {
      throw new VolumeError("NotFound", `references non-existent ${what.split(" ")[0]} key: ${item.key}`);
    }
  }
}

function addDownward(
  files: Map<string, VolumeFile>,
  pod: PodView,
  items: readonly DownwardItem[] | undefined,
  mode: number | undefined,
  sources: VolumeSources,
): void {
  for (const item of items ?? []) {
    const ref = item.resourceFieldRef;
    const target = pod.spec.containers.find(({ name }) => name === ref?.containerName) ?? pod.spec.containers[0];
    const content =
      item.fieldRef !== undefined
        ? podField(pod, item.fieldRef.fieldPath, sources)
        : ref !== undefined && target !== undefined
          ? resourceField(target, ref.resource, ref.divisor, sources.nodeLimits)
          : "";
    add(files, item.path, { content, mode: item.mode ?? mode ?? defaultMode });
  }
}

function add(files: Map<string, VolumeFile>, path: string, file: VolumeFile): void {
  if (!isInside(path)) throw new VolumeError("InvalidPath", `path ${JSON.stringify(path)} must stay within the volume`);
  files.set(path, file);
}

function versionOf(files: ReadonlyMap<string, VolumeFile>, owner: UserIds | undefined): string {
  const hash = createHash("sha256");
  if (owner !== undefined) hash.update(`${owner.uid}:${owner.gid}\0`);
  for (const [path, { content, mode }] of files) hash.update(`${path}\0${mode}\0${content.length}\0`).update(content);
  return `v${hash.digest("hex").slice(0, 16)}`;
}
