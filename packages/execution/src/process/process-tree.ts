import { readCgroupPids, sealCgroup } from "../cgroup/cgroup.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { errorCode } from "../files/file-error.ts";
import { hasEnded, hasEnvironment, isAlive, listProcesses, readStat } from "./proc.ts";
import type { ProcessStat } from "./proc.ts";

/** Environment variable of every process of a program; its value is the program's tag. */
export const programVariable = "KEELSON_PROGRAM";

/** Environment variable of the processes of a contained command; its value is the command's id. */
export const execVariable = "KEELSON_EXEC";

/** The environment of a program without {@link execVariable}, which would make it part of a command that is killed. */
export function withoutExec(env: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name !== execVariable));
}

/** Identifies the processes of a program. */
export interface ProcessTree {
  readonly tag: string;
  readonly hierarchies: readonly CgroupHierarchy[];
  /**
   * The shim, which leads the program's session and is not part of the program. Absent if its pid, and with it the session id, may have
   * been reused.
   */
  readonly shim?: { readonly pid: number; readonly startTime: number };
  /**
   * The first of the wrapper processes, which wait for the program and are not part of it, and their number of generations: script(1)
   * that holds its terminal, bubblewrap and its child, process 1 of the program's namespace. Signals must not reach them: they would
   * terminate without reporting the program's exit status.
   */
  readonly wrapper?: { readonly pid: number; readonly startTime: number; readonly generations: number };
  /** Whether the program started inside its cgroup, so that processes outside are not the program's. */
  readonly isGrouped: boolean;
}

/**
 * Lists the live processes of a program, without its shim: those in its cgroup, or else (machines where we may not create cgroups) those
 * in its session and those with its tag in their environment. A double fork with `setsid` leaves the session but keeps the environment;
 * without cgroups, only a process that both leaves its session and clears its environment escapes.
 */
export async function listTree(tree: ProcessTree): Promise<readonly ProcessStat[]> {
  const isShim = (stat: ProcessStat): boolean => stat.pid === tree.shim?.pid && stat.startTime === tree.shim.startTime;
  const grouped = readCgroupPids(tree.hierarchies, tree.tag);
  if (grouped !== undefined) {
    const stats = grouped.flatMap((pid) => readStat(pid) ?? []);
    const alive = stats.filter((stat) => !hasEnded(stat) && !isShim(stat));
    if (alive.length > 0 || tree.isGrouped) return alive;
  }
  const all = (await listProcesses()).filter((stat) => !hasEnded(stat) && !isShim(stat) && stat.pid !== process.pid);
  // The kernel does not reuse a session id while the session has members; a leader with another start time shows that it was reused.
  const leader = tree.shim === undefined ? undefined : readStat(tree.shim.pid);
  const ownsSession = tree.shim !== undefined && (leader === undefined || leader.startTime === tree.shim.startTime);
  const tagged = await Promise.all(
    all.map(async (stat) => {
      if (tree.shim !== undefined && stat.startTime < tree.shim.startTime) return false;
      if (ownsSession && stat.session === tree.shim?.pid) return true;
      return hasEnvironment(stat.pid, `${programVariable}=${tree.tag}`);
    }),
  );
  return all.filter((_, index) => tagged[index] === true);
}

/** The processes of a tree without its wrapper. */
export function withoutWrapper({ wrapper }: ProcessTree, stats: readonly ProcessStat[]): readonly ProcessStat[] {
  if (wrapper === undefined || readStat(wrapper.pid)?.startTime !== wrapper.startTime) return stats;
  const wrapping = new Set([wrapper.pid]);
  for (let generation = 1; generation < wrapper.generations; generation++) {
    const children = stats.filter((stat) => wrapping.has(stat.parent)).map((stat) => stat.pid);
    for (const pid of children) wrapping.add(pid);
  }
  return stats.filter((stat) => !wrapping.has(stat.pid));
}

/** Sends a signal to a process if its pid has not been reused. */
export function signalProcess(seen: { readonly pid: number; readonly startTime: number }, signal: NodeJS.Signals): void {
  if (readStat(seen.pid)?.startTime !== seen.startTime) return;
  try {
    process.kill(seen.pid, signal);
  } catch (error) {
    // It terminated in between, or we may not signal it, in which case the next listing still has it.
    if (errorCode(error) !== "ESRCH" && errorCode(error) !== "EPERM") throw error;
  }
}

/** Signals that the shim traps. All others would kill or stop the shim, so they are sent to the program's processes only. */
const trapped: ReadonlySet<NodeJS.Signals> = new Set(
  (["HUP", "INT", "QUIT", "ALRM", "TERM", "USR1", "USR2", "PIPE", "XCPU", "XFSZ", "VTALRM", "PROF", "CONT"] as const).map(
    (name): NodeJS.Signals => `SIG${name}`,
  ),
);

/**
 * Sends a signal to every process of a program. The shim's process group is signalled in one call, so that no concurrent fork is missed;
 * then the processes outside the group, one by one. Returns false if only the wrapper exists so far.
 */
export async function signalTree(tree: ProcessTree, signal: NodeJS.Signals): Promise<boolean> {
  const { shim } = tree;
  if (tree.wrapper !== undefined) {
    // The second pass catches concurrent forks; no process is signalled twice.
    const seen = new Set<number>();
    for (let pass = 0; pass < 2; pass++) {
      for (const stat of withoutWrapper(tree, await listTree(tree))) {
        if (!seen.has(stat.pid)) signalProcess(stat, signal);
        seen.add(stat.pid);
      }
    }
    return seen.size > 0 || !isAlive(tree.wrapper.pid, tree.wrapper.startTime);
  }
  const whole = shim !== undefined && trapped.has(signal) && readStat(shim.pid)?.startTime === shim.startTime;
  if (whole) {
    try {
      process.kill(-shim.pid, signal);
    } catch (error) {
      if (errorCode(error) !== "ESRCH" && errorCode(error) !== "EPERM") throw error;
    }
  }
  for (const stat of await listTree(tree)) if (!(whole && stat.group === shim.pid)) signalProcess(stat, signal);
  return true;
}

/** Maximum pause between two checks of killed processes. */
const maxKillPauseMs = 500;

/** Processes to kill. */
export interface KilledProcesses {
  /** Those that are alive. */
  readonly list: () => Promise<readonly ProcessStat[]>;
  /** Keeps them from starting others, where possible. */
  readonly seal: () => void;
  readonly deadlines: Deadlines;
}

/** Kills every process of a program; resolves when none is left. */
export async function killTree(tree: ProcessTree, deadlines: Deadlines): Promise<void> {
  await killProcesses({ list: () => listTree(tree), seal: () => sealCgroup(tree.hierarchies, tree.tag), deadlines });
}

/** Lists processes. Tries again if that fails, as it does while this process has too many files open. */
export async function listedProcesses(
  list: () => Promise<readonly ProcessStat[]>,
  deadlines: Deadlines,
): Promise<readonly ProcessStat[]> {
  for (;;) {
    try {
      return await list();
    } catch {
      await new Promise<void>((resolve) => void deadlines.after(maxKillPauseMs, resolve));
    }
  }
}

/**
 * Kills processes until none is left. Checks after 1, 2, 4 ... ms, because the kernel does not notify about
 * processes that are not children. A process in uninterruptible sleep (a dead network disk) delays this until the kernel releases it.
 */
export async function killProcesses({ list, seal, deadlines }: KilledProcesses): Promise<void> {
  const seen = new Map<number, ProcessStat>();
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, maxKillPauseMs)) {
    for (const stat of await listedProcesses(list, deadlines)) seen.set(stat.pid, stat);
    // An exiting process has lost its environment, so it is not listed, but it is still alive.
    const left = [...seen.values()].filter(({ pid, startTime }) => isAlive(pid, startTime));
    if (left.length === 0) return;
    seal();
    for (const stat of left) signalProcess(stat, "SIGKILL");
    await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
  }
}
