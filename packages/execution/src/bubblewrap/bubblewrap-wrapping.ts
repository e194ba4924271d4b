import { chownSync, readFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { basename, join } from "node:path";
import type { ExecSpec, ProgramSpec } from "../driver.ts";
import type { BindMount } from "../isolation.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import type { Execution, JoinedExecution, Wrapping } from "../process/wrapping.ts";
import { readErrorTail } from "../program/program-files.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { defaultPath } from "../program/program-spec.ts";
import { hasPrivateUser, hostUser, own } from "../program/program-user.ts";
import type { UserIds } from "../program/user.ts";
import { stubFailed, stubMessages } from "../warm/start-stub.ts";
import {
  argumentsFile,
  type BubblewrapWrappingOptions,
  bwrapCommand,
  createFiles,
  filesOf,
  hasCgroupNamespace,
  hasNestedUser,
  hasOwnWorkPath,
  insideUser,
  staged,
  stageOf,
  statusFile,
  wantsPrivateUser,
  workingDirectory,
  worldArguments,
  writeArguments,
  writeOptions,
} from "./bubblewrap-options.ts";
import { BubblewrapSlots } from "./bubblewrap-slots.ts";
import { innerProcess } from "./inner-process.ts";
import { privateUser, stageScript, stagingFailed } from "./private-user.ts";

/*
 * How a program is put into bubblewrap. The shim executes, with three files open (3 status, 4 arguments, 5 filter),
 *
 *     bwrap (waits) --> bwrap (process 1 inside) --> program
 *
 * For a program with a private user, a staging script comes first, see `private-user.ts`. bwrap's options are in a file that only we can
 * read, because they contain the program's environment. bwrap writes the pid of process 1 to the status file, and the exit code only if it
 * executed the program: this distinguishes a program that could not be executed from one that exits with 1.
 */

/** Whether bwrap has executed the program: only then does it report an exit code. */
function wasExecuted(folder: ProgramFolder): boolean {
  try {
    return readFileSync(statusFile(folder), "utf8").includes('"exit-code"');
  } catch {
    return false;
  }
}

/** Makes a process launcher start its programs in bubblewrap. */
export function createBubblewrapWrapping(options: BubblewrapWrappingOptions): Wrapping {
  return {
    rootOf: (request) => request.spec.isolation?.root,
    wrap: (request, execution) => wrapProgram(request, execution, options),
    join: (request, exec, wrapper) => wrapExec(request, exec, wrapper, options),
    ...(own.uid === 0 && { slots: new BubblewrapSlots(options) }),
    readStartError,
    diskLimit: (spec) => (hasPrivateUser(spec) ? spec.limits?.diskBytes : undefined),
  };
}

/** What is mounted in addition to the binds of the spec. */
const bindsOf = ({ cgroupView = [] }: LaunchRequest, { binds }: BubblewrapWrappingOptions): readonly BindMount[] => [
  ...binds,
  ...cgroupView,
];

function wrapProgram(request: LaunchRequest, execution: Execution, options: BubblewrapWrappingOptions): Execution {
  const { folder, spec } = request;
  const { filter } = options;
  const binds = bindsOf(request, options);
  createFiles(request, binds);
  const stage = stageOf(request, binds);
  const cwd = hasOwnWorkPath(spec) ? execution.cwd : workingDirectory(request);
  const { networkNamespace: namespace, ipcParameters } = spec.isolation ?? {};
  writeOptions(request, { cwd, binds, stage, hasIpc: ipcParameters !== undefined }, filter);
  // Whatever starts the program already runs as its user.
  const user = hostUser(spec);
  if (user !== undefined) {
    for (const path of [statusFile(folder), argumentsFile(folder)]) chownSync(path, user.uid, user.gid);
  }
  const bwrap = bwrapCommand(options.bwrap, execution.command);
  const { command, env } = stage === undefined ? { command: bwrap, env: {} } : staged(request, stage, bwrap);
  // Entered before everything else, as root.
  const isEntered = namespace !== undefined || ipcParameters !== undefined;
  const network = namespace === undefined ? [] : [`--net=${namespace}`];
  const entered = isEntered ? (["nsenter", ...network, ...userOptions(user), "--", ...command] as const) : command;
  return {
    command: ipcParameters === undefined ? entered : withIpcParameters(ipcParameters, entered),
    changesUser: isEntered,
    opened: filesOf(folder, filter),
    // The program's folder may exist inside only; bwrap changes to it.
    cwd: folder.path,
    env,
  };
}

const parametersScript = 'while [ "$1" != -- ]; do echo "$2" >"/proc/sys/$1" || exit 125; shift 2; done; shift; exec "$@"';

/** A command that sets kernel parameters in a new IPC namespace, as root, and executes the rest of the arguments there. */
function withIpcParameters(
  parameters: Readonly<Record<string, string>>,
  command: readonly string[],
): readonly [string, ...string[]] {
  const values = Object.entries(parameters).flat();
  return ["unshare", "--ipc", "--", "/bin/sh", "-c", parametersScript, "keelson-parameters", ...values, "--", ...command];
}

/** Options of nsenter(1) that change to a user after a namespace has been entered, which only root may. */
function userOptions(user: UserIds | undefined): readonly string[] {
  return user === undefined ? [] : [`--setgid=${user.gid}`, `--setuid=${user.uid}`];
}

async function wrapExec(
  request: LaunchRequest,
  exec: ExecSpec,
  wrapper: { readonly pid: number },
  options: BubblewrapWrappingOptions,
): Promise<JoinedExecution> {
  const { folder, spec } = request;
  const inner = await innerProcess(folder, wrapper.pid, request.deadlines);
  const env = { ...spec.env, ...exec.env };
  const binds = bindsOf(request, options);
  const stage = stageOf(request, binds);
  const cwd = exec.cwd ?? workingDirectory(request);
  const isNested = hasNestedUser(spec);
  const world = [...worldArguments({ ...request, spec: { ...spec, env } }, { cwd, binds, stage, hasProcesses: isNested })];
  const temporary = await mkdtemp(join(folder.path, "exec-"));
  const path = join(temporary, "arguments");
  const session = exec.terminal === undefined ? ["--new-session"] : [];
  const filter = options.filter === undefined ? [] : ["--seccomp", "6"];
  writeArguments(path, [...filter, ...session, ...world]);
  const isRootInside = own.uid !== 0 && wantsPrivateUser(spec);
  const bwrap = [options.bwrap, ...joinOptions(spec, isRootInside), "--args", "3", "--", ...exec.command];
  const start =
    stage === undefined
      ? bwrap
      : stage.wrap(privateUser(folder, spec.isolation), bwrap, join(folder.path, "exec-mounts"), isNested ? false : undefined);
  // The network namespace is entered from outside; bwrap enters the others and drops all capabilities. Without root the user namespace
  // comes first, in which this user has the capabilities that the others need.
  const namespaces = [
    ...(isRootInside ? ["--user=/proc/self/fd/4", "--preserve-credentials"] : []),
    ...(spec.isolation?.network === "none" ? [`--net=/proc/${inner}/ns/net`] : []),
    ...(hasCgroupNamespace(request) ? [`--cgroup=/proc/${inner}/ns/cgroup`] : []),
  ];
  const user = hostUser(spec);
  const isEntered = isNested || namespaces.length > 0;
  const enter = isNested
    ? ["nsenter", ...namespaces, "--pid=/proc/self/fd/5", "--", ...withProcesses(user)]
    : ["nsenter", ...namespaces, ...userOptions(user), "--"];
  const [first = options.bwrap, ...rest] = [...fileSizeLimit(spec), ...(isEntered ? enter : []), ...start];
  return {
    command: [first, ...rest],
    cwd: folder.path,
    changesUser: isEntered,
    env: { PATH: defaultPath, ...(stage !== undefined && { KEELSON_STAGE_SCRIPT: stageScript }) },
    temporary,
    files: [path, `/proc/${inner}/ns/user`, `/proc/${inner}/ns/pid`, ...(options.filter === undefined ? [] : [options.filter])],
  };
}

/**
 * Options with which bubblewrap joins a program's namespaces, or gets a user namespace like the program's for a command that has entered
 * the process namespace.
 */
function joinOptions(spec: ProgramSpec, isRootInside: boolean): readonly string[] {
  if (hasNestedUser(spec)) {
    const { uid, gid } = insideUser(spec);
    return ["--unshare-user", "--uid", String(uid), "--gid", String(gid)];
  }
  return [...(isRootInside ? [] : ["--userns", "4"]), "--pidns", "5"];
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
  const script = 'mount -t proc -o nosuid,nodev,noexec keelson-exec /proc || exit 125; exec "$@" 4<&- 5<&-';
  const change = user === undefined ? [] : ["setpriv", `--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups", "--"];
  return ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", script, "keelson-exec", ...change];
}

function readStartError({ folder, spec }: LaunchRequest, exitCode: number): ReturnType<Wrapping["readStartError"]> {
  if (exitCode === stubFailed) {
    const message = readErrorTail(folder, spec).trim();
    if (Object.values(stubMessages).some((each) => each === message)) return { exitCode, message };
  }
  if (wasExecuted(folder)) return undefined;
  const message = readErrorTail(folder, spec).trim();
  if (exitCode === stagingFailed) return { exitCode: 126, message: `could not prepare its user and mounts: ${message}` };
  if (exitCode !== 1) return undefined;
  const failure = /^bwrap: execvp (.*): ([^:]*)$/.exec(message);
  if (failure === null) return message.startsWith("bwrap: ") ? { exitCode: 126, message } : undefined;
  const [, program = "", reason = ""] = failure;
  if (/no such file/i.test(reason)) return { exitCode: 127, message: `${basename(program)}: not found (${program})` };
  return { exitCode: 126, message: `${program}: ${reason}` };
}
