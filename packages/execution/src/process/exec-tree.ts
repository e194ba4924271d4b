import { createExecCgroup, execCgroupsOf, isExecId, removeExecCgroup } from "../cgroup/exec-cgroup.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import { readCgroupPids, sealCgroup } from "../cgroup/cgroup.ts";
import type { ExecSession } from "../driver.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { hasEnded, hasEnvironment, isAlive, listProcesses, type ProcessStat, readEnvironment, readStat } from "./proc.ts";
import type { LaunchRequest } from "./launcher.ts";
import { execVariable, killProcesses, listedProcesses, programVariable } from "./process-tree.ts";

/** Maximum pause between two attempts to remove the cgroup of a command. The pauses are 1, 2, 4 ... ms. */
const maxReapPauseMs = 4096;

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
  removeWhenReaped({ hierarchies, deadlines }, name);
}

/** The kernel may still reap the last process of a command. Without this, a program collects empty cgroups while it lives. */
function removeWhenReaped(tree: Pick<ExecTree, "hierarchies" | "deadlines">, name: string, pauseMs = 1): void {
  if (removeExecCgroup(tree.hierarchies, name) || pauseMs > maxReapPauseMs) return;
  tree.deadlines.after(pauseMs, () => removeWhenReaped(tree, name, pauseMs * 2));
}

/** The contained commands of a program that an earlier supervisor left behind. */
export interface LeftExecs extends Omit<ExecTree, "id"> {
  /** Those with their own cgroup. */
  readonly ids: readonly string[];
  /** Processes of the program, among them those of commands without a cgroup. */
  readonly candidates: readonly ProcessStat[];
}

/** Finds {@link LeftExecs}. The program's adoption waits for it, so that commands of this supervisor are not among them. */
export async function findLeftExecs(
  hierarchies: readonly CgroupHierarchy[],
  { folder: { tag }, deadlines }: Pick<LaunchRequest, "folder" | "deadlines">,
): Promise<LeftExecs> {
  const ids = execCgroupsOf(hierarchies, tag);
  const grouped = aliveOf(readCgroupPids(hierarchies, tag));
  return { tag, hierarchies, deadlines, ids, candidates: grouped ?? (await listedProcesses(listProcesses, deadlines)) };
}

/**
 * Kills {@link LeftExecs}. A process in uninterruptible sleep delays this, but not the end of other commands. The program's adoption must
 * not wait for it.
 */
export async function killLeftExecs({ ids, candidates, ...trees }: LeftExecs): Promise<void> {
  const killed = new Set<string>();
  const kill = async (id: string): Promise<void> => {
    if (killed.has(id)) return;
    killed.add(id);
    await killExecTree({ ...trees, id });
  };
  const killOf = async (process: ProcessStat): Promise<void> => {
    const environment = await readEnvironment(process.pid);
    if (environment.get(programVariable) !== trees.tag || !isAlive(process.pid, process.startTime)) return;
    const id = environment.get(execVariable);
    if (id !== undefined && isExecId(id)) await kill(id);
  };
  await Promise.all([...ids.map(kill), ...candidates.map(killOf)]);
}

function aliveOf(pids: readonly number[] | undefined): readonly ProcessStat[] | undefined {
  return pids?.flatMap((pid) => readStat(pid) ?? []).filter((stat) => !hasEnded(stat));
}

async function withEnvironment(assignment: string): Promise<readonly ProcessStat[]> {
  const all = (await listProcesses()).filter(({ pid, startTime }) => pid !== process.pid && isAlive(pid, startTime));
  const matches = await Promise.all(all.map(({ pid }) => hasEnvironment(pid, assignment)));
  return all.filter((_, index) => matches[index] === true);
}
