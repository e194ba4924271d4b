import { existsSync, statSync } from "node:fs";
import { openBeneath } from "../files/open-beneath.ts";
import type { BindMount } from "../isolation.ts";
import { type LaunchRequest, StartFailure } from "../process/launcher.ts";
import { imageWork } from "./machine-root.ts";

/** What bubblewrap mounts into every writable root. */
const mountedFolders = ["/proc", "/dev", "/tmp"];

const modes = { directoryMode: 0o755, fileMode: 0o644 };

/**
 * Creates the mount points that a writable root lacks, before its program starts: the program's user may not be able to. Links in the root
 * lead to its own files.
 */
export function createMountPoints({ folder, spec }: Pick<LaunchRequest, "folder" | "spec">, binds: readonly BindMount[]): void {
  const { root, binds: ownBinds = [] } = spec.isolation ?? {};
  if (root === undefined) return;
  if (spec.limits?.diskBytes !== undefined) {
    throw new StartFailure("could not start the program: limits.diskBytes does not apply to a writable root", 126);
  }
  const folders = [...mountedFolders, ...(existsSync(folder.work) ? [imageWork] : [])];
  for (const path of folders) create(root, path, "directory");
  for (const { source, target } of [...binds, ...ownBinds]) {
    create(root, target, statSync(source).isDirectory() ? "directory" : "file");
  }
}

function create(root: string, path: string, kind: "directory" | "file"): void {
  try {
    openBeneath(root, path.slice(1), { kind, create: modes, absoluteLinks: "beneath" }).close();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartFailure(`could not start the program: mount point ${path}: ${reason}`, 126);
  }
}
