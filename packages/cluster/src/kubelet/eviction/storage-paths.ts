import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Program } from "@keelson/execution";
import { parseOwnBytes } from "./own-bytes.ts";
import { isLocalVolume, type StorageLimits } from "./storage-decision.ts";
import type { PodView } from "../pod/pod-view.ts";
import { ownedMarker } from "../volumes/root-overlay.ts";

/** The directories and files of a container on the node's disk. */
export interface ContainerPaths {
  readonly name: string;
  /** Logs, working directory, writable root and termination message. */
  readonly paths: readonly string[];
  /** Bytes below {@link paths} that the container did not write. */
  readonly ownBytes: number;
}

/** Where a Pod uses the node's disk. */
export interface StoragePaths {
  readonly volumes: readonly { readonly name: string; readonly path: string }[];
  readonly containers: readonly ContainerPaths[];
}

/** The Pod whose paths are determined. */
export interface StoredPod {
  readonly pod: PodView;
  /** The Pod's directory on its node. */
  readonly folder: string;
  /** The containers and their current attempts. */
  readonly containers: readonly { readonly name: string; readonly attempt: number }[];
  /** The program of an attempt; undefined if there is none. */
  program(container: string, attempt: number): Pick<Program, "logs"> | undefined;
}

/** The existing paths of a Pod. */
export async function storagePaths(stored: StoredPod): Promise<StoragePaths> {
  const { pod, folder, containers } = stored;
  const volumes = (pod.spec.volumes ?? [])
    .filter(({ name }) => isLocalVolume(pod, name))
    .map(({ name }) => ({ name, path: join(folder, "volumes", name) }))
    .filter(({ path }) => existsSync(path));
  return { volumes, containers: await Promise.all(containers.map((container) => containerPaths(stored, container))) };
}

/** The paths that count: with a limit of the Pod or of a container all, otherwise those of volumes with a limit. */
export function limitedPaths({
  limits,
  paths,
}: {
  readonly limits: StorageLimits;
  readonly paths: StoragePaths;
}): readonly string[] {
  const isWhole = limits.pod !== undefined || limits.containers.length > 0;
  const volumes = paths.volumes.filter(({ name }) => isWhole || limits.volumes.some((limit) => limit.name === name));
  return [...volumes.map(({ path }) => path), ...(isWhole ? paths.containers.flatMap((container) => container.paths) : [])];
}

async function containerPaths(
  { folder, program }: StoredPod,
  { name, attempt }: { readonly name: string; readonly attempt: number },
): Promise<ContainerPaths> {
  const root = join(folder, "roots", `${name}.${attempt}`);
  // The logs of the previous attempt are kept.
  const programs = [attempt - 1, attempt].flatMap((each) => program(name, each) ?? []);
  const ownBytes = await bytesOfOwner(root, program(name, attempt) !== undefined);
  const paths = [
    ...programs.map(({ logs }) => dirname(logs.stdout)),
    join(folder, "work", name),
    join(folder, "termination", `${name}.${attempt}`),
    ...(ownBytes === undefined ? [] : [join(root, "changes")]),
  ];
  return { name, paths: paths.filter((path) => existsSync(path)), ownBytes: ownBytes ?? 0 };
}

/**
 * Bytes that the change of owner took in a container's root. Undefined if that is not known: the change has not ended, it could not be
 * measured, or an earlier version made it. The container's next start makes it anew.
 */
async function bytesOfOwner(root: string, isStarted: boolean): Promise<number | undefined> {
  const text = await readFile(join(root, ownedMarker), "utf8").catch(() => (isStarted ? "0" : ""));
  return parseOwnBytes(text);
}
