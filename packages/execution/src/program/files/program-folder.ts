import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { tagPattern } from "../../cgroup/cgroup.ts";
import { removeTree } from "../../files/remove-tree.ts";
import type { Unmounter } from "./size-limit.ts";

/** The paths of one program's files. */
export interface ProgramFolder {
  readonly id: string;
  readonly path: string;
  readonly spec: string;
  readonly state: string;
  /** Written by the shim, see `shim.ts`. */
  readonly exit: string;
  /** FIFO that the shim holds open while it lives. */
  readonly alive: string;
  /** FIFO that the program reads, if its spec has an input. */
  readonly input: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly work: string;
  /** Identifies the program on this machine: names its cgroup and marks the environment of its processes. */
  readonly tag: string;
}

/** File with the tag of a program that was started in a prepared slot: the tag of the slot. */
export const tagFile = (path: string): string => join(path, "tag");

/** The files of an existing program below a driver's directory, with the tag that it was started with. */
export function openProgramFolder(dir: string, id: string): ProgramFolder {
  let tag: string | undefined;
  try {
    tag = readFileSync(tagFile(join(dir, id)), "latin1");
  } catch {
    // It was not started in a slot.
  }
  return programFolder(dir, id, tag !== undefined && tagPattern.test(tag) ? tag : undefined);
}

/**
 * The files of program `id` below a driver's directory. `dir` is a real path, so that the tag is the same for every supervisor. Default for
 * `tag`: derived from the path.
 */
export function programFolder(dir: string, id: string, tag?: string): ProgramFolder {
  const path = join(dir, id);
  return {
    id,
    path,
    spec: join(path, "spec.json"),
    state: join(path, "state.json"),
    exit: join(path, "exit"),
    alive: join(path, "alive"),
    input: join(path, "input"),
    stdout: join(path, "stdout.log"),
    stderr: join(path, "stderr.log"),
    work: join(path, "work"),
    tag: tag ?? `keelson-${createHash("sha256").update(path).digest("hex").slice(0, 16)}`,
  };
}

/** Deletes a program's directory through the directory `trash`. A crash leaves it either intact or removed, because it moves first. */
export async function discardFolder(
  { path, tag }: ProgramFolder,
  trash: string,
  now: number,
  unmounter: Unmounter,
): Promise<void> {
  const trashed = join(trash, `${tag}-${now.toString(36)}`);
  await unmounter.unmountBelow(path);
  try {
    await rename(path, trashed);
  } catch {
    await removeTree(path);
  }
  await removeTree(trashed);
}
