import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Program } from "@keelson/execution";
import { isLocalVolume } from "./storage-decision.ts";
import type { PodView } from "../pod/pod-view.ts";
import { ownedMarker } from "../volumes/root-overlay.ts";

/** The folders and files of a container on the node's disk. */
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
  /** The Pod's folder on its node. */
  readonly folder: string;
  /** The containers and their current attempts. */
  readonly containers: readonly { readonly name: string; readonly attempt: number }[];
  /** The program of an attempt; undefined if there is none. */
  program(container: string, attempt: number): Pick<Program, "logs"> | undefined;
}

/** The existing paths of a Pod. */
export async function storagePaths({ pod, folder, containers, program }: StoredPod): Promise<StoragePaths> {
  const volumes = (pod.spec.volumes ?? [])
    .filter(({ name }) => isLocalVolume(pod, name))
    .map(({ name }) => ({ name, path: join(folder, "volumes", name) }))
    .filter(({ path }) => existsSync(path));
  return {
    volumes,
    containers: await Promise.all(
      containers.map(async ({ name, attempt }): Promise<ContainerPaths> => {
        const root = join(folder, "roots", `${name}.${attempt}`);
        // The logs of the previous attempt are kept.
        const programs = [attempt - 1, attempt].flatMap((each) => program(name, each) ?? []);
        const paths = [
          ...programs.map(({ logs }) => dirname(logs.stdout)),
          join(folder, "work", name),
          join(folder, "termination", `${name}.${attempt}`),
          join(root, "changes"),
        ];
        const ownBytes = Number(await readFile(join(root, ownedMarker), "utf8").catch(() => "0"));
        return { name, paths: paths.filter((path) => existsSync(path)), ownBytes };
      }),
    ),
  };
}
