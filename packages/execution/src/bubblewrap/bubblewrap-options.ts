import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ProgramSpec } from "../driver.ts";
import { pathInRoot } from "../files/root-path.ts";
import type { BindMount } from "../isolation.ts";
import { type LaunchRequest, StartFailure } from "../process/launcher.ts";
import { programVariable, withoutExec } from "../process/process-tree.ts";
import { createTemporaryFolder, createWorkFolder } from "../program/files/program-files.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { defaultPath } from "../program/program-spec.ts";
import { hasPrivateUser, homeDirectory, own, programUser } from "../program/users/program-user.ts";
import type { UserIds } from "../program/users/user.ts";
import type { ProgramFiles } from "../shim/shim.ts";
import { imageRoot, machineRoot, resolveInImage } from "./bubblewrap-root.ts";
import { imageWork, writeSettings } from "./machine-root.ts";
import { Stage } from "./private-user.ts";
import { createMountPoints } from "./writable-root.ts";

/* The files of a program in bubblewrap, and the options that bubblewrap gets. */

/** The file to which bubblewrap reports. */
export const statusFile = (folder: ProgramFolder): string => join(folder.path, "bwrap-status.json");
/** The file with bubblewrap's options. */
export const argumentsFile = (folder: ProgramFolder): string => join(folder.path, "bwrap-arguments");
/** The directory that a program has as `/tmp`. */
export const temporaryFolder = (folder: ProgramFolder): string => join(folder.path, "tmp");
/** The directory with the generated files of a program's `/etc`. */
export const settingsFolder = (folder: ProgramFolder): string => join(folder.path, "etc");

/**
 * User and group ids that a program with a private user has inside: an unprivileged id of the host appears as root without capabilities.
 * With any other id bubblewrap nests a second user namespace, from which commands alongside the program could not join the first.
 */
const insideId = 0;

/** What every program of a driver has in common. */
export interface BubblewrapWrappingOptions {
  readonly bwrap: string;
  readonly binds: readonly BindMount[];
  /** File with a seccomp filter. Default: none. */
  readonly filter?: string;
}

/** What is mounted in addition to the binds of the spec. */
export const bindsOf = ({ cgroupView = [] }: LaunchRequest, { binds }: BubblewrapWrappingOptions): readonly BindMount[] => [
  ...binds,
  ...cgroupView,
];

/** Options of nsenter(1) that change to a user after a namespace has been entered, which only root may. */
export function userOptions(user: UserIds | undefined): readonly string[] {
  return user === undefined ? [] : [`--setgid=${user.gid}`, `--setuid=${user.uid}`];
}

/** Creates the files and directories of a program. */
export function createFiles({ folder, spec }: LaunchRequest, binds: readonly BindMount[]): void {
  if (spec.isolation?.image !== undefined) {
    throw new StartFailure("could not start the program: this driver has no images by name; use isolation.root", 126);
  }
  createTemporaryFolder(temporaryFolder(folder));
  // Mounted even if the program starts elsewhere.
  if (hasPrivateUser(spec)) createWorkFolder(folder.work, undefined);
  if (spec.isolation?.isRootWritable === true) createMountPoints({ folder, spec }, binds);
  writeSettings(settingsFolder(folder), insideUser(spec), spec.isolation?.network ?? "shared", spec.isolation?.hostname);
  writeFileSync(statusFile(folder), "", { mode: 0o600 });
}

/** Where bubblewrap runs a program. */
export interface BubblewrapWorld {
  /** Working directory, as the program sees it. */
  readonly cwd: string;
  /** Mounted in addition to those of the spec. */
  readonly binds: readonly BindMount[];
  /** Absent without a private user. */
  readonly stage: Stage | undefined;
  /** Where the processes of the process namespace are mounted already. Default: bubblewrap mounts them. */
  readonly processes?: string;
  /** Whether the IPC namespace is one of the program's own already. Default: bubblewrap creates it. */
  readonly hasIpc?: boolean;
}

/** Writes bubblewrap's options for a program. `more` are options for this start. */
export function writeOptions(
  request: LaunchRequest,
  world: BubblewrapWorld,
  filter: string | undefined,
  more: readonly string[] = [],
): void {
  const seccomp = filter === undefined ? [] : ["--seccomp", "5"];
  writeArguments(argumentsFile(request.folder), [...seccomp, ...more, ...bwrapArguments(request, world)]);
}

/** The command that executes `command` in bubblewrap. */
export const bwrapCommand = (bwrap: string, command: readonly string[]): readonly [string, ...string[]] => [
  bwrap,
  ...["--json-status-fd", "3", "--args", "4", "--", ...command],
];

/** The files that bubblewrap inherits. */
export const filesOf = (folder: ProgramFolder, filter: string | undefined): ProgramFiles => ({
  append: statusFile(folder),
  read: [argumentsFile(folder), filter ?? "/dev/null"],
});

/** The environment of a program, without PWD. */
export function environmentOf({ spec, folder }: Pick<LaunchRequest, "spec" | "folder">): Readonly<Record<string, string>> {
  const hasRoot = spec.isolation?.root !== undefined;
  const home = hasRoot ? homeDirectory(spec) : hasPrivateUser(spec) ? imageWork : undefined;
  // Without cgroups, the program's processes are found by the tag.
  return {
    PATH: defaultPath,
    ...(home !== undefined && { HOME: home }),
    ...withoutExec(spec.env),
    [programVariable]: folder.tag,
  };
}

/** Writes arguments for `bwrap --args`. */
export function writeArguments(path: string, list: readonly string[]): void {
  writeFileSync(path, list.map((argument) => `${argument}\0`).join(""), { mode: 0o600 });
}

/** Whether a program is to appear as another user inside, also where only root could give it its own user id. */
export const wantsPrivateUser = (spec: ProgramSpec): boolean => spec.isolation?.hasPrivateUser === true;

/** The ids that a program has inside its namespaces. */
export function insideUser(spec: ProgramSpec): UserIds {
  const user = programUser(spec);
  if (user !== undefined) return user;
  return wantsPrivateUser(spec) ? { uid: insideId, gid: insideId } : own;
}

/**
 * Whether bubblewrap puts a program into a second user namespace, below the one that owns its process namespace. It does for every user
 * but root, because only root can mount `/dev/pts`. No process remains in the first, so commands alongside the program cannot join it.
 */
export const hasNestedUser = (spec: ProgramSpec): boolean => own.uid === 0 && insideUser(spec).uid !== insideId;

/** The directory in which a program starts, as it sees it. */
export function workingDirectory({ spec, folder }: LaunchRequest): string {
  return spec.cwd ?? (hasOwnWorkPath(spec) ? folder.work : imageWork);
}

/** Whether the work directory is mounted at its own path of the machine. */
export const hasOwnWorkPath = (spec: ProgramSpec): boolean => spec.isolation?.root === undefined && !hasPrivateUser(spec);

/** The stage of a program with a private user. */
export function stageOf({ spec, folder }: LaunchRequest, binds: readonly BindMount[]): Stage | undefined {
  if (!hasPrivateUser(spec)) return undefined;
  const { root, binds: ownBinds = [] } = spec.isolation ?? {};
  return new Stage([
    folder.path,
    ...(root === undefined ? [] : [root]),
    ...[...binds, ...ownBinds].map(({ source }) => source),
  ]);
}

/** Whether a program sees its cgroups without their parents, including in `/proc/self/cgroup`. */
export const hasCgroupNamespace = ({ cgroupView = [] }: LaunchRequest): boolean => cgroupView.length > 0;

function* bwrapArguments(request: LaunchRequest, world: BubblewrapWorld): Generator<string> {
  const { spec } = request;
  yield* ["--unshare-user", "--unshare-pid"];
  if (hasCgroupNamespace(request)) yield "--unshare-cgroup";
  const user = insideUser(spec);
  // A supervisor that is not root, and a private user, have their id mapped to the requested one inside the user namespace.
  if (wantsPrivateUser(spec) || (spec.user !== undefined && own.uid !== 0)) {
    yield* ["--uid", String(user.uid), "--gid", String(user.gid)];
  }
  // A new session prevents injecting input into a foreign terminal; a program with its own terminal must keep its session.
  if (spec.terminal === undefined) yield "--new-session";
  if (spec.isolation?.network === "none" && spec.isolation.networkNamespace === undefined) yield "--unshare-net";
  yield* worldArguments(request, world);
}

/** As bubblewrap does for a `/proc` that it mounts itself, covers what controls the machine. */
const boundProcesses = (processes: string): readonly string[] => [
  ...["--bind", processes, "/proc"],
  ...["sys", "sysrq-trigger", "irq", "bus"].flatMap((name) => ["--ro-bind-try", `${processes}/${name}`, `/proc/${name}`]),
];

/** Options shared by a program and the commands alongside it. */
export function* worldArguments({ spec, folder }: LaunchRequest, world: BubblewrapWorld): Generator<string> {
  const { cwd, binds, stage, processes, hasIpc = false } = world;
  const { root, hostname, isRootWritable = false, binds: ownBinds = [], devices = [] } = spec.isolation ?? {};
  const at = (source: string): string => stage?.add(source) ?? source;
  if (!hasIpc) yield "--unshare-ipc";
  yield* ["--unshare-uts", "--cap-drop", "ALL"];
  if (hostname !== undefined) yield* ["--hostname", hostname];
  const mounts = [...binds, ...ownBinds].map((bind) => ({
    ...bind,
    target: root === undefined ? bind.target : resolveInImage(root, bind.target),
  }));
  // Otherwise the root is a tmpfs with the parts of the image or the machine, so that mount points can be created in it.
  if (root !== undefined && isRootWritable) yield* ["--bind", at(root), "/"];
  else if (root !== undefined) yield* imageRoot(root, mounts, at(root));
  else yield* machineRoot(at(settingsFolder(folder)));
  yield* processes === undefined ? ["--proc", "/proc"] : boundProcesses(processes);
  yield* ["--dev", "/dev"];
  if (stage !== undefined) yield* ["--dev-bind", stage.terminals, "/dev/pts"];
  for (const path of devices) yield* ["--dev-bind", path, path];
  yield* ["--bind", at(temporaryFolder(folder)), "/tmp"];
  const hasVarTmp = !isRootWritable && (root === undefined || existsSync(pathInRoot(root, "/var/tmp")));
  if (!isRootWritable) yield* ["--tmpfs", "/run"];
  if (hasVarTmp) yield* ["--tmpfs", "/var/tmp"];
  for (const bind of mounts) {
    yield* [bind.isWritable === true ? "--bind" : "--ro-bind", at(bind.source), bind.target];
  }
  const work = folder.work;
  if (existsSync(work)) yield* ["--bind", at(work), hasOwnWorkPath(spec) ? work : imageWork];
  if (!isRootWritable) yield* ["--remount-ro", "/"];
  // The disk limit applies to the work directory and /tmp, so nothing else may be writable.
  if (!isRootWritable && stage !== undefined && spec.limits?.diskBytes !== undefined) {
    yield* ["--remount-ro", "/run", "--remount-ro", "/dev"];
    if (hasVarTmp) yield* ["--remount-ro", "/var/tmp"];
  }
  yield "--clearenv";
  const env = environmentOf({ spec, folder });
  for (const [name, value] of Object.entries(env)) yield* ["--setenv", name, value];
  yield* ["--chdir", cwd];
}
