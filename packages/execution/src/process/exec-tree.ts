import { createExecCgroup, execCgroupsOf, removeExecCgroup } from "../cgroup/exec-cgroup.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import { readCgroupPids, sealCgroup } from "../cgroup/cgroup.ts";
import type { ExecSession } from "../driver.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { hasEnded, hasEnvironment, hasVariable, isAlive, listProcesses, type ProcessStat, readStat } from "./proc.ts";
import type { LaunchRequest } from "./launcher.ts";
import { killProcesses, programVariable } from "./process-tree.ts";

/** Environment variable of the processes of a contained command; its value is the command's id. */
export const execVariable = "KEELSON_EXEC";

/** Everything that a contained command starts: the processes of its own cgroup below the program's, or, without cgroups, those with its id in their environment. */
export interface ExecTree {
  readonly id: string;
  /** The program's tag. */
  readonly tag: string;
  readonly hierarchies: readonly CgroupHierarchy[];
  readonly deadlines: Deadlines;
}

/** Prepares a tree for a command. Returns the entry files of its cgroups; they are those of the program if it cannot have one of its own. */
export function createExecTree({ id, tag, hierarchies }: ExecTree, entries: readonly string[]): readonly string[] {
  return createExecCgroup(hierarchies, tag, id, entries);
}

/** The session of a contained command: `kill` also ends processes that have left its process group. */
export function containedExec(session: ExecSession, tree: ExecTree): ExecSession {
  return {
    ...session,
    async kill() {
      await session.kill();
      await killExecTree(tree);
    },
  };
}

/** Kills every process of a contained command; resolves when none is left. */
async function killExecTree({ id, tag, hierarchies, deadlines }: ExecTree): Promise<void> {
  const name = `${tag}/${id}`;
  await killProcesses({
    list: async () => aliveOf(readCgroupPids(hierarchies, name)) ?? (await withEnvironment(`${execVariable}=${id}`)),
    seal: () => sealCgroup(hierarchies, name),
    deadlines,
  });
  removeExecCgroup(hierarchies, name);
}

/**
 * Kills the contained commands of a program that an earlier supervisor left behind. A process in uninterruptible sleep delays this, so the program's
 * adoption must not wait for it.
 */
export async function killLeftExecs(
  hierarchies: readonly CgroupHierarchy[],
  { folder: { tag }, deadlines }: Pick<LaunchRequest, "folder" | "deadlines">,
): Promise<void> {
  for (const id of execCgroupsOf(hierarchies, tag)) await killExecTree({ id, tag, hierarchies, deadlines });
  const list = async (): Promise<readonly ProcessStat[]> => {
    const own = aliveOf(readCgroupPids(hierarchies, tag)) ?? (await withEnvironment(`${programVariable}=${tag}`));
    const isExec = await Promise.all(own.map(({ pid }) => hasVariable(pid, execVariable)));
    return own.filter((_, index) => isExec[index] === true);
  };
  await killProcesses({ list, seal: () => {}, deadlines });
}

function aliveOf(pids: readonly number[] | undefined): readonly ProcessStat[] | undefined {
  return pids?.flatMap((pid) => readStat(pid) ?? []).filter((stat) => !hasEnded(stat));
}

async function withEnvironment(assignment: string): Promise<readonly ProcessStat[]> {
  const all = (await listProcesses()).filter(({ pid, startTime }) => pid !== process.pid && isAlive(pid, startTime));
  const matches = await Promise.all(all.map(({ pid }) => hasEnvironment(pid, assignment)));
  return all.filter((_, index) => matches[index] === true);
}
