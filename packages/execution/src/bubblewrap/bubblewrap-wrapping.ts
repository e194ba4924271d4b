import { chownSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import type { LaunchRequest } from "../process/launcher.ts";
import type { Execution, Wrapping } from "../process/wrapping.ts";
import { readErrorTail } from "../program/files/program-files.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { hasPrivateUser, hostUser, own } from "../program/users/program-user.ts";
import { stubFailed, stubMessages } from "../stub/start-stub.ts";
import { describeFailure } from "../stub/call-program.ts";
import {
  argumentsFile,
  bindsOf,
  type BubblewrapWrappingOptions,
  bwrapCommand,
  createFiles,
  filesOf,
  hasOwnWorkPath,
  stageOf,
  statusFile,
  userOptions,
  workingDirectory,
  writeOptions,
} from "./bubblewrap-options.ts";
import { wrapExec } from "./bubblewrap-exec.ts";
import { BubblewrapSlots } from "./bubblewrap-slots.ts";
import { stagingFailed } from "./private-user.ts";
import { Staging } from "./staging.ts";

/*
 * How a program is put into bubblewrap. The shim executes, with three files open (3 status, 4 arguments, 5 filter),
 *
 *     bwrap (waits) --> bwrap (process 1 inside) --> program
 *
 * For a program with a private user, its stage comes first, see `staging.ts`. bwrap's options are in a file that only we can
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
  const staging = new Staging();
  return {
    rootOf: (request) => request.spec.isolation?.root,
    wrap: (request, execution) => wrapProgram(request, execution, options, staging),
    join: (request, exec, wrapper) => wrapExec(request, exec, wrapper, options, staging),
    ...(own.uid === 0 && { slots: new BubblewrapSlots(options, staging) }),
    readStartError,
    diskLimit: (spec) => (hasPrivateUser(spec) ? spec.limits?.diskBytes : undefined),
  };
}

function wrapProgram(
  request: LaunchRequest,
  execution: Execution,
  options: BubblewrapWrappingOptions,
  staging: Staging,
): Execution {
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
  const { command, env } = stage === undefined ? { command: bwrap, env: {} } : staging.start(request, stage, bwrap, "program");
  // Entered before everything else, as root.
  const isEntered = namespace !== undefined || ipcParameters !== undefined;
  const network = namespace === undefined ? [] : [`--net=${namespace}`];
  const entered = isEntered ? (["nsenter", ...network, ...userOptions(user), "--", ...command] as const) : command;
  return {
    command: ipcParameters === undefined ? entered : withIpcParameters(ipcParameters, entered),
    changesUser: isEntered,
    opened: filesOf(folder, filter),
    // The program's directory may exist inside only; bwrap changes to it.
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

function readStartError({ folder, spec }: LaunchRequest, exitCode: number): ReturnType<Wrapping["readStartError"]> {
  if (exitCode === stubFailed) {
    const message = readErrorTail(folder, spec).trim();
    if (Object.values(stubMessages).some((each) => each === message)) return { exitCode, message };
  }
  if (wasExecuted(folder)) return undefined;
  const message = readErrorTail(folder, spec).trim();
  if (exitCode === stagingFailed)
    return { exitCode: 126, message: `could not prepare its user and mounts: ${describeFailure(message)}` };
  if (exitCode !== 1) return undefined;
  const failure = /^bwrap: execvp (.*): ([^:]*)$/.exec(message);
  if (failure === null) return message.startsWith("bwrap: ") ? { exitCode: 126, message } : undefined;
  const [, program = "", reason = ""] = failure;
  if (/no such file/i.test(reason)) return { exitCode: 127, message: `${basename(program)}: not found (${program})` };
  return { exitCode: 126, message: `${program}: ${reason}` };
}
