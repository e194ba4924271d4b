import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ExecSpec, ProgramSpec } from "../driver.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import type { JoinedExecution } from "../process/wrapping.ts";
import { defaultPath } from "../program/program-spec.ts";
import { hasPrivateUser, hostUser } from "../program/users/program-user.ts";
import type { UserIds } from "../program/users/user.ts";
import {
  bindsOf,
  type BubblewrapWorld,
  type BubblewrapWrappingOptions,
  hasCgroupNamespace,
  hasNestedUser,
  insideUser,
  stageOf,
  userOptions,
  wantsPrivateUser,
  workingDirectory,
  worldArguments,
  writeArguments,
} from "./bubblewrap-options.ts";
import { stageExec } from "./exec-staging.ts";
import { innerProcess } from "./inner-process.ts";
import { type OtherUser, otherUser } from "./other-user.ts";
import { hideProcesses, privateUser, Stage, stageScript } from "./private-user.ts";
import type { Staging } from "./staging.ts";
import { createUserNamespace, type UserNamespace } from "./user-namespace.ts";

/*
 * How a command alongside a program is put into bubblewrap: it gets mounts like the program's, and joins its processes and its network. The
 * shell that enters its cgroups executes, with files open (3 arguments, 4 process namespace, 5 filter, 6 user namespace),
 *
 *     nsenter (network, cgroups, processes) --> bwrap (waits) --> command
 *
 * bubblewrap keeps a descriptor of the machine's /proc until it executes the command, so a working directory, or a link that the program
 * makes there, can lead to the bwrap that waits, and from that process's root to the machine's files. A command of a program with a private
 * user must therefore not be allowed to trace it: it has another user namespace or another user.
 */

/** What is executed for a command alongside a program. `wrapper` is bubblewrap, or its parent. */
export async function wrapExec(
  request: LaunchRequest,
  exec: ExecSpec,
  wrapper: { readonly pid: number },
  options: BubblewrapWrappingOptions,
  staging: Staging,
): Promise<JoinedExecution> {
  const other = otherUser(request, exec);
  const inner = await innerProcess(request.folder, wrapper.pid, request.deadlines);
  if (!wantsPrivateUser(request.spec)) return wrapShared(request, exec, inner, options);
  return hasPrivateUser(request.spec)
    ? wrapPrivate(request, exec, inner, options, { other, staging })
    : wrapRootless(request, exec, inner, options);
}

/** A command of a program that has a user of the machine. */
async function wrapShared(
  request: LaunchRequest,
  exec: ExecSpec,
  inner: number,
  options: BubblewrapWrappingOptions,
): Promise<JoinedExecution> {
  const { spec } = request;
  const isNested = hasNestedUser(spec);
  const world = { stage: undefined, ...(isNested && { processes: "/proc" }) };
  const { path, onOpened } = await writeExecArguments(request, exec, world, options);
  const bwrap = [options.bwrap, ...joinOptions(spec), "--args", "3", "--", ...exec.command];
  // The network namespace is entered from outside; bwrap enters the others and drops all capabilities.
  const namespaces = outerNamespaces(request, inner);
  const user = hostUser(spec);
  const isEntered = isNested || namespaces.length > 0;
  const enter = isNested
    ? ["nsenter", ...namespaces, "--pid=/proc/self/fd/4", "--", ...withProcesses(user)]
    : ["nsenter", ...namespaces, ...userOptions(user), "--"];
  return joined(request, [...(isEntered ? enter : []), ...bwrap], options, {
    changesUser: isEntered,
    hasStage: false,
    files: [path, `/proc/${inner}/ns/pid`, options.filter ?? "/dev/null", `/proc/${inner}/ns/user`],
    onOpened,
  });
}

/** A command of a program with a private user, as this user or as another one. */
async function wrapPrivate(
  request: LaunchRequest,
  exec: ExecSpec,
  inner: number,
  options: BubblewrapWrappingOptions,
  { other, staging }: { readonly other: OtherUser | undefined; readonly staging: Staging },
): Promise<JoinedExecution> {
  const { spec, folder } = request;
  const stage = stageOf(request, bindsOf(request, options));
  if (stage === undefined) throw new TypeError("a program with a private user has a stage");
  // As in containers, a HOME of the program or its image stays.
  const home: Readonly<Record<string, string>> =
    other === undefined || spec.env?.HOME !== undefined ? {} : { HOME: other.home };
  const env = { ...home, ...exec.env };
  const world = { stage, processes: stage.processes };
  const { path, onOpened } = await writeExecArguments(request, { ...exec, env }, world, options);
  const users = await createUsers(other).catch((error: unknown) => {
    onOpened();
    throw error;
  });
  const { uid, gid } = other?.inside ?? insideUser(spec);
  const namespace = users === undefined ? ["--unshare-user"] : ["--userns", "6"];
  const ids = ["--uid", String(uid), "--gid", String(gid)];
  const bwrap = [options.bwrap, ...namespace, ...ids, "--args", "3", "--", ...exec.command];
  const starter = other?.starter ?? privateUser(folder, spec.isolation);
  const close = (): void => {
    users?.release();
    onOpened();
  };
  const files = [path, `/proc/${inner}/ns/pid`, options.filter ?? "/dev/null", ...(users === undefined ? [] : [users.path])];
  if (staging.canExecute(request)) {
    const namespaces = outerNamespaces(request, inner).map((option) => option.slice(option.indexOf("/")));
    const staged = stageExec(join(dirname(path), "stage"), { spec, stage, starter, bwrap, files, namespaces });
    return {
      ...{ command: staged.command, files: staged.files, onOpened: close },
      ...{ changesUser: true, cwd: folder.path, env: { PATH: defaultPath } },
    };
  }
  const enter = [
    ...["nsenter", ...outerNamespaces(request, inner), "--", ...ownMounts],
    ...script(`${hideProcesses()}; ${enterProcesses}`),
    ...script('exec "$@" 4<&-'),
  ];
  const start = stage.wrap(starter, bwrap, join(folder.path, "exec-mounts"), "own");
  return joined(request, [...enter, ...start], options, {
    changesUser: true,
    hasStage: true,
    files,
    onOpened: close,
  });
}

const createUsers = async (other: OtherUser | undefined): Promise<UserNamespace | undefined> =>
  other === undefined ? undefined : createUserNamespace(other.starter, other.ids);

/**
 * A command of a program with a private user, if this process is not root. The user namespace of the program comes first: this user has the
 * capabilities there that the others need.
 */
async function wrapRootless(
  request: LaunchRequest,
  exec: ExecSpec,
  inner: number,
  options: BubblewrapWrappingOptions,
): Promise<JoinedExecution> {
  const stage = new Stage(bindsOf(request, options).map(({ source }) => source));
  const { path, onOpened } = await writeExecArguments(request, exec, { stage: undefined, processes: stage.processes }, options);
  const { uid, gid } = insideUser(request.spec);
  const ids = ["--uid", String(uid), "--gid", String(gid)];
  const bwrap = [options.bwrap, "--unshare-user", ...ids, "--args", "3", "--", ...exec.command];
  const users = ["--user=/proc/self/fd/6", "--preserve-credentials"];
  const enter = [
    ...["nsenter", ...users, ...outerNamespaces(request, inner), "--", ...ownMounts],
    ...script(enterProcesses),
    ...script(`exec 4<&- 6<&-; ${stage.mountProcesses()}; exec "$@"`),
  ];
  return joined(request, [...enter, ...bwrap], options, {
    changesUser: true,
    hasStage: false,
    files: [path, `/proc/${inner}/ns/pid`, options.filter ?? "/dev/null", `/proc/${inner}/ns/user`],
    onOpened,
  });
}

const ownMounts = ["unshare", "--mount", "--propagation", "private", "--"];

/** Children of the process are in the process namespace of the program; the process itself, which becomes bubblewrap, stays outside. */
const enterProcesses = 'exec nsenter --no-fork --pid=/proc/self/fd/4 -- "$@"';

/** A command that runs a shell script with the rest of the arguments. */
const script = (text: string): readonly string[] => ["/bin/sh", "-c", text, "keelson-exec"];

/** Writes bubblewrap's options for a command into a directory, which `onOpened` removes. */
async function writeExecArguments(
  request: LaunchRequest,
  exec: ExecSpec,
  world: Pick<BubblewrapWorld, "stage" | "processes">,
  options: BubblewrapWrappingOptions,
): Promise<{ readonly path: string; readonly onOpened: () => void }> {
  const { folder, spec } = request;
  const env = { ...spec.env, ...exec.env };
  const cwd = exec.cwd ?? workingDirectory(request);
  const binds = bindsOf(request, options);
  const words = [...worldArguments({ ...request, spec: { ...spec, env } }, { ...world, binds, cwd })];
  const temporary = await mkdtemp(join(folder.path, "exec-"));
  const path = join(temporary, "arguments");
  const session = exec.terminal === undefined ? ["--new-session"] : [];
  writeArguments(path, [...(options.filter === undefined ? [] : ["--seccomp", "5"]), ...session, ...words]);
  return { path, onOpened: () => rmSync(temporary, { recursive: true, force: true }) };
}

/** Options of nsenter(1) for the namespaces that are entered before bubblewrap starts. */
const outerNamespaces = ({ spec, ...request }: LaunchRequest, inner: number): readonly string[] => [
  ...(spec.isolation?.network === "none" ? [`--net=/proc/${inner}/ns/net`] : []),
  ...(hasCgroupNamespace({ spec, ...request }) ? [`--cgroup=/proc/${inner}/ns/cgroup`] : []),
];

function joined(
  { folder, spec }: LaunchRequest,
  command: readonly string[],
  options: BubblewrapWrappingOptions,
  { hasStage, ...rest }: Pick<JoinedExecution, "changesUser" | "files" | "onOpened"> & { readonly hasStage: boolean },
): JoinedExecution {
  const [first = options.bwrap, ...words] = [...fileSizeLimit(spec), ...command];
  return {
    ...rest,
    command: [first, ...words],
    cwd: folder.path,
    env: { PATH: defaultPath, ...(hasStage && { KEELSON_STAGE_SCRIPT: stageScript }) },
  };
}

/**
 * Options with which bubblewrap joins a program's namespaces, or gets a user namespace like the program's for a command that has entered
 * the process namespace.
 */
function joinOptions(spec: ProgramSpec): readonly string[] {
  if (!hasNestedUser(spec)) return ["--userns", "6", "--pidns", "4"];
  const { uid, gid } = insideUser(spec);
  return ["--unshare-user", "--uid", String(uid), "--gid", String(gid)];
}

/** A command that limits the size of files as the quota of the program does, in its blocks, and executes the rest of the arguments. */
function fileSizeLimit(spec: ProgramSpec): readonly string[] {
  const diskBytes = hasPrivateUser(spec) ? spec.limits?.diskBytes : undefined;
  return diskBytes === undefined ? [] : ["prlimit", `--fsize=${Math.ceil(diskBytes / 512) * 512}`, "--"];
}

/**
 * A command that mounts the processes of the namespace it is in, as root, and executes the rest of the arguments as a user, without the
 * descriptors of the program's namespaces. bubblewrap could not mount them: its user namespace does not own the process namespace.
 */
function withProcesses(user: UserIds | undefined): readonly string[] {
  const mount = 'mount -t proc -o nosuid,nodev,noexec keelson-exec /proc || exit 125; exec "$@" 4<&- 6<&-';
  const change = user === undefined ? [] : ["setpriv", `--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups", "--"];
  return [...ownMounts, ...script(mount), ...change];
}
