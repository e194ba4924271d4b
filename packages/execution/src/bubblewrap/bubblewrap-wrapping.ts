import { chownSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { basename, join } from "node:path";
import { ExecutionError } from "../driver.ts";
import type { ExecSpec, ProgramSpec } from "../driver.ts";
import { imageRoot, machineRoot, resolveInImage } from "./bubblewrap-root.ts";
import { imageWork, writeSettings } from "./machine-root.ts";
import { privateUser, quotaScript, Stage, stageScript, stagingFailed, withQuota } from "./private-user.ts";
import { StartFailure } from "../process/launcher.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import type { BindMount } from "../isolation.ts";
import { createTemporaryFolder, createWorkFolder, readErrorTail } from "../program/program-files.ts";
import { hasPrivateUser, homeDirectory, hostUser, own, programUser } from "../program/program-user.ts";
import { defaultPath } from "../program/program-spec.ts";
import type { UserIds } from "../program/user.ts";
import { pathInRoot } from "../files/root-path.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import type { Execution, JoinedExecution, Wrapping } from "../process/wrapping.ts";
import { readStat } from "../process/proc.ts";
import { programVariable } from "../process/process-tree.ts";

/*
 * How a program is put into bubblewrap. The shim executes, with three files open (3 status, 4 arguments, 5 filter),
 *
 *     bwrap (waits) --> bwrap (process 1 inside) --> program
 *
 * For a program with a private user, a staging script comes first, see `private-user.ts`. bwrap's options are in a file that only we can
 * read, because they contain the program's environment. bwrap writes the pid of process 1 to the status file, and the exit code only if it
 * executed the program: this distinguishes a program that could not be executed from one that exits with 1.
 */

const statusFile = (folder: ProgramFolder): string => join(folder.path, "bwrap-status.json");
const argumentsFile = (folder: ProgramFolder): string => join(folder.path, "bwrap-arguments");
const temporaryFolder = (folder: ProgramFolder): string => join(folder.path, "tmp");
const settingsFolder = (folder: ProgramFolder): string => join(folder.path, "etc");

/**
 * User and group ids that a program with a private user has inside: an unprivileged id of the host appears as root without capabilities.
 * With any other id bubblewrap nests a second user namespace, from which commands beside the program could not join the first.
 */
const insideId = 0;

/** Whether bwrap has executed the program: only then does it report an exit code. */
function wasExecuted(folder: ProgramFolder): boolean {
  try {
    return readFileSync(statusFile(folder), "utf8").includes('"exit-code"');
  } catch {
    return false;
  }
}

/** Maximum pause, after 1, 2, 4 ... ms, until bwrap has reported its child. */
const maxStartPauseMs = 1024;

/** The host pid of process 1 of a program's namespaces. */
async function innerProcess({ folder, deadlines }: LaunchRequest, wrapper: number): Promise<number> {
  for (let pauseMs = 1; pauseMs <= maxStartPauseMs; pauseMs *= 2) {
    const status = existsSync(statusFile(folder)) ? readFileSync(statusFile(folder), "utf8") : "";
    const inner = Number(/"child-pid": (\d+)/.exec(status)?.[1] ?? 0);
    // The pid may have been reused. A process of script(1) may be in between.
    const parent = readStat(inner)?.parent ?? 0;
    if (parent === wrapper || (parent > 1 && readStat(parent)?.parent === wrapper)) return inner;
    await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
  }
  throw new ExecutionError("NotRunning", `program ${folder.id} is not running`);
}

/** What {@link createBubblewrapWrapping} needs. */
export interface BubblewrapWrappingOptions {
  readonly bwrap: string;
  readonly binds: readonly BindMount[];
  /** File with a seccomp filter. Default: none. */
  readonly filter?: string;
}

/** Makes a process launcher start its programs in bubblewrap. */
export function createBubblewrapWrapping(options: BubblewrapWrappingOptions): Wrapping {
  return {
    rootOf: (request) => request.spec.isolation?.root,
    wrap: (request, execution) => wrapProgram(request, execution, options),
    join: (request, exec, wrapper) => wrapExec(request, exec, wrapper, options),
    readStartError,
    diskLimit: (spec) => (hasPrivateUser(spec) ? spec.limits?.diskBytes : undefined),
  };
}

function wrapProgram(request: LaunchRequest, execution: Execution, options: BubblewrapWrappingOptions): Execution {
  const { folder, spec } = request;
  if (spec.isolation?.image !== undefined) {
    throw new StartFailure("could not start the program: this driver has no images by name; use isolation.root", 126);
  }
  createTemporaryFolder(temporaryFolder(folder));
  // Mounted even if the program starts elsewhere.
  if (hasPrivateUser(spec)) createWorkFolder(folder.work, undefined);
  writeSettings(settingsFolder(folder), insideUser(spec), spec.isolation?.network ?? "shared", spec.isolation?.hostname);
  writeFileSync(statusFile(folder), "", { mode: 0o600 });
  const stage = stageOf(request, options.binds);
  const filter = options.filter === undefined ? [] : ["--seccomp", "5"];
  writeArguments(argumentsFile(folder), [...filter, ...bwrapArguments(request, execution, options.binds, stage)]);
  // Whatever starts the program already runs as its user.
  const user = hostUser(spec);
  if (user !== undefined) {
    for (const path of [statusFile(folder), argumentsFile(folder)]) chownSync(path, user.uid, user.gid);
  }
  const bwrap = [options.bwrap, "--json-status-fd", "3", "--args", "4", "--", ...execution.command] as const;
  const { command, env } = stage === undefined ? { command: bwrap, env: {} } : staged(request, stage, bwrap);
  const namespace = spec.isolation?.networkNamespace;
  return {
    // Entered before everything else, as root.
    command: namespace === undefined ? command : ["nsenter", `--net=${namespace}`, "--", ...command],
    opened: { append: statusFile(folder), read: [argumentsFile(folder), options.filter ?? "/dev/null"] },
    // The program's folder may exist inside only; bwrap changes to it.
    cwd: folder.path,
    env,
  };
}

/** The staged start of a program with a private user, who owns its folders. */
function staged(
  { folder, spec }: LaunchRequest,
  stage: Stage,
  bwrap: readonly string[],
): { readonly command: readonly [string, ...string[]]; readonly env: Readonly<Record<string, string>> } {
  const user = privateUser(folder, spec.isolation);
  const command = stage.wrap(user, bwrap, join(folder.path, "stage-mounts"));
  const env = { KEELSON_STAGE_SCRIPT: stageScript };
  const folders = [folder.work, temporaryFolder(folder)];
  const sizeBytes = spec.limits?.diskBytes;
  if (sizeBytes !== undefined) {
    return {
      command: withQuota(user, sizeBytes, folders, command, join(folder.path, "quota-mounts")),
      env: { ...env, KEELSON_QUOTA_SCRIPT: quotaScript },
    };
  }
  for (const path of folders) chownSync(path, user.uid, user.gid);
  return { command, env };
}

async function wrapExec(
  request: LaunchRequest,
  exec: ExecSpec,
  wrapper: { readonly pid: number },
  options: BubblewrapWrappingOptions,
): Promise<JoinedExecution> {
  const { folder, spec } = request;
  const inner = await innerProcess(request, wrapper.pid);
  const env = { ...spec.env, ...exec.env };
  const stage = stageOf(request, options.binds);
  const world = [
    ...worldArguments({ ...request, spec: { ...spec, env } }, exec.cwd ?? workingDirectory(request), options.binds, stage),
  ];
  const temporary = await mkdtemp(join(folder.path, "exec-"));
  const path = join(temporary, "arguments");
  const session = exec.terminal === undefined ? ["--new-session"] : [];
  const filter = options.filter === undefined ? [] : ["--seccomp", "6"];
  writeArguments(path, [...filter, ...session, ...world]);
  const isRootInside = own.uid !== 0 && wantsPrivateUser(spec);
  const userns = isRootInside ? [] : ["--userns", "4"];
  const bwrap = [options.bwrap, ...userns, "--pidns", "5", "--args", "3", "--", ...exec.command];
  const start =
    stage === undefined ? bwrap : stage.wrap(privateUser(folder, spec.isolation), bwrap, join(folder.path, "exec-mounts"));
  // The network namespace is entered from outside; bwrap enters the others and drops all capabilities. Without root the user namespace
  // comes first, in which this user has the capabilities that the others need.
  const namespaces = [
    ...(isRootInside ? [`--user=/proc/${inner}/ns/user`, "--preserve-credentials"] : []),
    ...(spec.isolation?.network === "none" ? [`--net=/proc/${inner}/ns/net`] : []),
  ];
  const enter = namespaces.length === 0 ? [] : ["nsenter", ...namespaces, "--"];
  const [first = options.bwrap, ...rest] = [...enter, ...start];
  return {
    command: [first, ...rest],
    cwd: folder.path,
    env: { PATH: defaultPath, ...(stage !== undefined && { KEELSON_STAGE_SCRIPT: stageScript }) },
    temporary,
    files: [path, `/proc/${inner}/ns/user`, `/proc/${inner}/ns/pid`, ...(options.filter === undefined ? [] : [options.filter])],
  };
}

function readStartError({ folder, spec }: LaunchRequest, exitCode: number): ReturnType<Wrapping["readStartError"]> {
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

function writeArguments(path: string, list: readonly string[]): void {
  writeFileSync(path, list.map((argument) => `${argument}\0`).join(""), { mode: 0o600 });
}

/** Whether a program is to appear as another user inside, also where only root could give it a user id of its own. */
const wantsPrivateUser = (spec: ProgramSpec): boolean => spec.isolation?.hasPrivateUser === true;

/** The ids that a program has inside its namespaces. */
function insideUser(spec: ProgramSpec): UserIds {
  const user = programUser(spec);
  if (user !== undefined) return user;
  return wantsPrivateUser(spec) ? { uid: insideId, gid: insideId } : own;
}

/** The folder in which a program starts, as it sees it. */
function workingDirectory({ spec, folder }: LaunchRequest): string {
  return spec.cwd ?? (hasOwnWorkPath(spec) ? folder.work : imageWork);
}

/** Whether the work folder is mounted at its own path of the machine. */
const hasOwnWorkPath = (spec: ProgramSpec): boolean => spec.isolation?.root === undefined && !hasPrivateUser(spec);

/** The stage of a program with a private user. */
function stageOf({ spec, folder }: LaunchRequest, binds: readonly BindMount[]): Stage | undefined {
  if (!hasPrivateUser(spec)) return undefined;
  const { root, binds: ownBinds = [] } = spec.isolation ?? {};
  return new Stage([
    folder.path,
    ...(root === undefined ? [] : [root]),
    ...[...binds, ...ownBinds].map(({ source }) => source),
  ]);
}

function* bwrapArguments(
  request: LaunchRequest,
  execution: Execution,
  binds: readonly BindMount[],
  stage: Stage | undefined,
): Generator<string> {
  const { spec } = request;
  yield* ["--unshare-user", "--unshare-pid"];
  const user = insideUser(spec);
  // A supervisor that is not root, and a private user, have their id mapped to the requested one inside the user namespace.
  if (wantsPrivateUser(spec) || (spec.user !== undefined && own.uid !== 0)) {
    yield* ["--uid", String(user.uid), "--gid", String(user.gid)];
  }
  // A new session prevents injecting input into a foreign terminal; a program with its own terminal must keep its session.
  if (spec.terminal === undefined) yield "--new-session";
  if (spec.isolation?.network === "none" && spec.isolation.networkNamespace === undefined) yield "--unshare-net";
  const cwd = hasOwnWorkPath(spec) ? execution.cwd : workingDirectory(request);
  yield* worldArguments(request, cwd, binds, stage);
}

/** Options shared by a program and the commands beside it. */
function* worldArguments(
  { spec, folder }: LaunchRequest,
  cwd: string,
  binds: readonly BindMount[],
  stage: Stage | undefined,
): Generator<string> {
  const { root, hostname, binds: ownBinds = [] } = spec.isolation ?? {};
  const at = (source: string): string => stage?.add(source) ?? source;
  yield* ["--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"];
  if (hostname !== undefined) yield* ["--hostname", hostname];
  const mounts = [...binds, ...ownBinds].map((bind) => ({
    ...bind,
    target: root === undefined ? bind.target : resolveInImage(root, bind.target),
  }));
  // The root is a tmpfs with the parts of the image or the machine, so that mount points can be created in it.
  if (root !== undefined) yield* imageRoot(root, mounts, at(root));
  else yield* machineRoot(at(settingsFolder(folder)));
  yield* ["--proc", "/proc", "--dev", "/dev"];
  yield* ["--bind", at(temporaryFolder(folder)), "/tmp"];
  yield* ["--tmpfs", "/run"];
  const hasVarTmp = root === undefined || existsSync(pathInRoot(root, "/var/tmp"));
  if (hasVarTmp) yield* ["--tmpfs", "/var/tmp"];
  for (const bind of mounts) {
    yield* [bind.isWritable === true ? "--bind" : "--ro-bind", at(bind.source), bind.target];
  }
  const work = folder.work;
  if (existsSync(work)) yield* ["--bind", at(work), hasOwnWorkPath(spec) ? work : imageWork];
  yield* ["--remount-ro", "/"];
  // The disk limit applies to the work folder and /tmp, so nothing else may be writable.
  if (stage !== undefined && spec.limits?.diskBytes !== undefined) {
    yield* ["--remount-ro", "/run", "--remount-ro", "/dev"];
    if (hasVarTmp) yield* ["--remount-ro", "/var/tmp"];
  }
  yield "--clearenv";
  // Without cgroups, the program's processes are found by the tag.
  const home = root !== undefined ? { HOME: homeDirectory(spec) } : stage !== undefined ? { HOME: imageWork } : {};
  const env = { PATH: defaultPath, ...home, ...spec.env, [programVariable]: folder.tag };
  for (const [name, value] of Object.entries(env)) yield* ["--setenv", name, value];
  yield* ["--chdir", cwd];
}
