import { closeSync, constants, fstatSync, openSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { ExecutionError, type Program } from "../driver.ts";
import { type Mount, parseMounts } from "../files/mount-points.ts";
import { readStat } from "../process/proc.ts";
import { bubblewrapChild, bubblewrapStatusFile } from "./network-namespace.ts";
import type { UserIds } from "./users/user.ts";

/** The root directory of a running program. */
export interface ProgramRoot {
  /** Descriptor of the root as the program sees it, with its mounts. Only for paths below it (O_PATH). The caller closes it. */
  readonly fd: number;
  /** The program's user on the host, with whose permissions files below the root may be used. Never root. */
  readonly user: UserIds;
}

/** open(2) flag that Node.js does not name. */
const O_PATH = 0o10000000;

/**
 * Opens the root directory of a running program with isolation. Undefined while the program still enters it; try again later.
 *
 * The root contains mounts such as `/proc`, whose files give root of the host permissions that the program does not have. Use it only from a
 * process that runs as {@link ProgramRoot.user}.
 *
 * **Errors**: {@link ExecutionError} `NotRunning`, and `Unsupported` for a program without a root and its own user.
 */
export function openProgramRoot(program: Pick<Program, "id" | "spec" | "state" | "logs">): ProgramRoot | undefined {
  const { state, spec, logs } = program;
  if (state.kind === "exited") throw new ExecutionError("NotRunning", `program ${program.id} is not running`);
  if (spec.isolation?.hasPrivateUser !== true) {
    throw new ExecutionError("Unsupported", "files require a program with a user and its own root");
  }
  if (spec.isolation.runtime === "runsc")
    throw new ExecutionError("Unsupported", "files of a program in gVisor are not accessible; run a command in it instead");
  if (state.kind !== "running") return undefined;
  const child = bubblewrapChild(bubblewrapStatusFile(dirname(logs.stdout)), state.pid);
  const pid = child ?? state.pid;
  const before = readStat(pid);
  if (before === undefined) return undefined;
  try {
    const hasRoot = child === undefined ? hasContainerRoot(pid) : hasBubblewrapRoot(pid);
    if (!hasRoot) return undefined;
    const user = userOf(pid);
    return openRoot(pid, before.startTime, user);
  } catch (error) {
    if (error instanceof ExecutionError) throw error;
    // It has exited in between.
    return undefined;
  }
}

function openRoot(pid: number, startTime: number, user: UserIds): ProgramRoot | undefined {
  const fd = openSync(join("/proc", String(pid), "root"), O_PATH | constants.O_DIRECTORY);
  const [found, own] = [fstatSync(fd), statSync("/")];
  const isOwn = found.dev === own.dev && found.ino === own.ino;
  const hasSameProcess = readStat(pid)?.startTime === startTime;
  if (!isOwn && hasSameProcess && user.uid !== 0 && user.gid !== 0) return { fd, user };
  closeSync(fd);
  if (hasSameProcess && !isOwn)
    throw new ExecutionError("Unsupported", "files require a program that does not run as root of the host");
  return undefined;
}

/**
 * Whether a process of bubblewrap with this mountinfo has entered its final root. `own` is the mountinfo of this process, whose root is the
 * machine's. Mount points are not compared by name: a program may have mounts at `/newroot` and `/oldroot` too.
 *
 * | step of bubblewrap                                                   | mounts on `/`               | machine's root |
 * |----------------------------------------------------------------------|-----------------------------|----------------|
 * | starts                                                               | machine's                   | `/`            |
 * | mounts a tmpfs, binds its directory `newroot` to itself, and enters it  | `/` of the tmpfs            | `/oldroot`     |
 * | mounts the program's files below `/newroot`, and unmounts `/oldroot` | `/` of the tmpfs            | unmounted      |
 * | enters `/newroot`                                                    | `/newroot` and `/` of it    | unmounted      |
 * | unmounts the rest of the tmpfs                                       | `/newroot` of the tmpfs     | unmounted      |
 *
 * The steps only go forward, so a root that is `/newroot` of a tmpfs, and not the machine's own (which is one if this process runs in
 * bubblewrap), shows that the machine's root has been unmounted, even if the mounts changed while they were read.
 *
 * A writable root is a directory, not of a tmpfs, that is mounted on `/newroot`. It is the only mount on `/` after the last step.
 */
export function isBubblewrapRoot(mountinfo: string, own: string): boolean {
  const [root, ...others] = rootMounts(mountinfo);
  if (root === undefined || others.length > 0) return false;
  const same = rootMounts(own).filter(({ device }) => device === root.device);
  if (root.type === "tmpfs") return same.length === 0 && root.root === "/newroot";
  return same.every((each) => each.root !== root.root);
}

const rootMounts = (mountinfo: string): readonly Mount[] => parseMounts(mountinfo).filter(({ point }) => point === "/");

function hasBubblewrapRoot(pid: number): boolean {
  return isBubblewrapRoot(readFileSync(`/proc/${pid}/mountinfo`, "utf8"), readFileSync("/proc/self/mountinfo", "utf8"));
}

/** Whether bubblewrap's process inside has its users and all its mounts; false if the process does not exist. */
export function hasEnteredRoot(pid: number): boolean {
  try {
    return hasBubblewrapRoot(pid);
  } catch {
    return false;
  }
}

/** Whether the OCI runtime has executed the program: it enters the root before. */
function hasContainerRoot(pid: number): boolean {
  const isInit = readFileSync(`/proc/${pid}/comm`, "latin1").startsWith("runc:[");
  return !isInit && readlinkSync(`/proc/${pid}/ns/mnt`) !== readlinkSync("/proc/self/ns/mnt");
}

/** The effective ids of a process, as this process's user namespace has them. */
function userOf(pid: number): UserIds {
  const status = readFileSync(`/proc/${pid}/status`, "latin1");
  const [uid, gid] = ["Uid", "Gid"].map((name) => Number(new RegExp(`^${name}:\\t\\d+\\t(\\d+)`, "m").exec(status)?.[1] ?? 0));
  return { uid: uid ?? 0, gid: gid ?? 0 };
}
