import { readCgroupPids, sealCgroup } from "../cgroup/cgroup.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { errorCode } from "../files/file-error.ts";
import { hasEnded, hasEnvironment, isAlive, listProcesses, readStat } from "./proc.ts";
import type { ProcessStat } from "./proc.ts";

/** Variable in the environment of every process of a program; its value is the program's tag. */
export const programVariable = "KEELSON_PROGRAM";

/** How to find the processes of a program. */
export interface ProcessTree {
  readonly tag: string;
  readonly hierarchies: readonly CgroupHierarchy[];
  /**
   * The shim: it leads the program's session, and is itself no part of the program. Absent where it is not known to be
   * this program's: its pid, and with it the session's number, may be somebody else's by now.
   */
  readonly shim?: { readonly pid: number; readonly startTime: number };
  /**
   * What waits for the program and is itself no part of it: script(1) that holds its terminal, bubblewrap and its child, process 1 of the
   * program's world. The first of these, and how many generations they are. Signals are not for them: they would end without
   * telling how the program ended.
   */
  readonly wrapper?: { readonly pid: number; readonly startTime: number; readonly generations: number };
  /** Whether the program is known to have started inside its cgroup, so that what is not in there is not the program's. */
  readonly isGrouped: boolean;
}

/**
 * Every process of a program that has not ended, without its shim: those in its cgroup, or else (machines where we may not
 * make groups) those in its session and those that carry its tag in their environment. A double fork with `setsid` leaves
 * the session and keeps the environment; only a program that both leaves its session and clears its environment gets away,
 * and only without cgroups.
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
  // The kernel gives a session's number to nobody else while the session has members; a leader of another age shows it did.
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

/** The processes of a tree that are the program's own. */
export function withoutWrapper({ wrapper }: ProcessTree, stats: readonly ProcessStat[]): readonly ProcessStat[] {
  if (wrapper === undefined || readStat(wrapper.pid)?.startTime !== wrapper.startTime) return stats;
  const wrapping = new Set([wrapper.pid]);
  for (let generation = 1; generation < wrapper.generations; generation++) {
    const children = stats.filter((stat) => wrapping.has(stat.parent)).map((stat) => stat.pid);
    for (const pid of children) wrapping.add(pid);
  }
  return stats.filter((stat) => !wrapping.has(stat.pid));
}

/** Sends a signal to a process if it is still the one that was seen. */
export function signalProcess(seen: { readonly pid: number; readonly startTime: number }, signal: NodeJS.Signals): void {
  if (readStat(seen.pid)?.startTime !== seen.startTime) return;
  try {
    process.kill(seen.pid, signal);
  } catch (error) {
    // Gone between the two lines, or not ours to signal; the first is what we want, the second shows in the next listing.
    if (errorCode(error) !== "ESRCH" && errorCode(error) !== "EPERM") throw error;
  }
}

/** Signals that end a shim, or stop it so that it cannot tell how the program ended: they go to the program's processes only. */
const trapped: ReadonlySet<NodeJS.Signals> = new Set(
  (["HUP", "INT", "QUIT", "ALRM", "TERM", "USR1", "USR2", "PIPE", "XCPU", "XFSZ", "VTALRM", "PROF", "CONT"] as const).map(
    (name): NodeJS.Signals => `SIG${name}`,
  ),
);

/**
 * Sends a signal to every process of a program. What is in the shim's process group gets it in one call, so that a process
 * that forks meanwhile does not slip through; then those outside the group, one by one. Answers false where the program is not
 * there yet, only what wraps it.
 */
export async function signalTree(tree: ProcessTree, signal: NodeJS.Signals): Promise<boolean> {
  const { shim } = tree;
  if (tree.wrapper !== undefined) {
    // One that was forked meanwhile is in the second list; none gets the signal twice.
    const seen = new Set<number>();
    for (let look = 0; look < 2; look++) {
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

/** The longest pause between two looks at processes that were killed and have not gone yet. */
const longestLookMs = 500;

/**
 * Kills every process of a program; resolves when none is left. Looks again after 1, 2, 4 ... ms: nothing tells a process
 * about the end of one that is not its child. A process in an uninterruptible wait (a dead network disk) holds this up as
 * long as the kernel holds it.
 */
export async function killTree(tree: ProcessTree, deadlines: Deadlines): Promise<void> {
  const seen = new Map<number, ProcessStat>();
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, longestLookMs)) {
    for (const stat of await listTree(tree)) seen.set(stat.pid, stat);
    // One that is just ending has no environment any more, and so is not listed, but is still there.
    const left = [...seen.values()].filter(({ pid, startTime }) => isAlive(pid, startTime));
    if (left.length === 0) return;
    sealCgroup(tree.hierarchies, tree.tag);
    for (const stat of left) signalProcess(stat, "SIGKILL");
    await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
  }
}
