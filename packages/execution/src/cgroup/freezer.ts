import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ExecutionError } from "../driver.ts";
import { errorCode } from "../files/file-error.ts";
import type { Deadlines } from "../program/deadlines.ts";
import type { CgroupHierarchy } from "./cgroup-hierarchies.ts";
import { readCgroupPids } from "./cgroup.ts";

/*
 * Pausing a program by the freezer of cgroup version 2. It is part of the core, so it also works where the controllers belong to version 1.
 */

/** Maximum pause, after 1, 2, 4 ... ms, until every process is frozen. */
const maxFreezePauseMs = 1024;

/** The directory of a program's cgroup with a freezer; undefined if it has none. */
function freezerOf(hierarchies: readonly CgroupHierarchy[], name: string): string | undefined {
  return hierarchies
    .filter(({ version }) => version === 2)
    .map(({ parent }) => join(parent, name))
    .find((folder) => existsSync(join(folder, "cgroup.freeze")));
}

/** Whether a program is paused. */
export function isFrozen(hierarchies: readonly CgroupHierarchy[], name: string): boolean {
  const folder = freezerOf(hierarchies, name);
  try {
    return folder !== undefined && readFileSync(join(folder, "cgroup.freeze"), "latin1").trim() === "1";
  } catch {
    return false;
  }
}

/**
 * Freezes every process of a program; resolves when none runs. Throws `Unsupported`, leaving the program running, if a process cannot be
 * frozen.
 */
export async function freeze(hierarchies: readonly CgroupHierarchy[], name: string, deadlines: Deadlines): Promise<void> {
  const folder = freezerOf(hierarchies, name);
  if (folder === undefined) {
    throw new ExecutionError("Unsupported", "cannot pause the program: it has no cgroup of version 2 on this machine");
  }
  writeFileSync(join(folder, "cgroup.freeze"), "1");
  try {
    for (let pauseMs = 1; ; pauseMs *= 2) {
      const problem = unfrozen(folder, hierarchies, name);
      if (problem === undefined) return;
      if (pauseMs > maxFreezePauseMs) throw new ExecutionError("Unsupported", `cannot pause the program: ${problem}`);
      await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
    }
  } catch (error) {
    thaw(hierarchies, name);
    throw error;
  }
}

/** Lets a frozen program continue; does nothing if it is not frozen. */
export function thaw(hierarchies: readonly CgroupHierarchy[], name: string): void {
  const folder = freezerOf(hierarchies, name);
  if (folder === undefined) return;
  try {
    writeFileSync(join(folder, "cgroup.freeze"), "0");
  } catch (error) {
    // The cgroup was removed.
    if (errorCode(error) !== "ENOENT" && errorCode(error) !== "ENODEV") throw error;
  }
}

/** What still runs of a program that is being frozen; undefined if nothing does. */
function unfrozen(folder: string, hierarchies: readonly CgroupHierarchy[], name: string): string | undefined {
  if (!/^frozen 1$/m.test(readFileSync(join(folder, "cgroup.events"), "latin1"))) return "a process is busy in the kernel";
  // On a machine with both versions, a command that starts enters the program's other cgroups first.
  const frozen = new Set(readPids(folder));
  const outside = (readCgroupPids(hierarchies, name) ?? []).filter((pid) => !frozen.has(pid));
  return outside.length === 0 ? undefined : `processes ${outside.join(", ")} are outside its freezer`;
}

const readPids = (folder: string): readonly number[] =>
  readFileSync(join(folder, "cgroup.procs"), "latin1").split("\n").filter(Boolean).map(Number);
