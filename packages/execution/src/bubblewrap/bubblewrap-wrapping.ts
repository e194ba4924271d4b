import { chownSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { basename, join } from "node:path";
import { ExecutionError } from "../driver.ts";
import { imageRoot, machineRoot, resolveInImage } from "./bubblewrap-root.ts";
import { hiddenFiles, imageWork } from "./machine-root.ts";
import { StartFailure } from "../process/launcher.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import type { BindMount } from "../isolation.ts";
import { readErrorTail, createTemporaryFolder } from "../program/program-files.ts";
import { homeDirectory, hostUser, own, programUser } from "../program/program-user.ts";
import { defaultPath } from "../program/program-spec.ts";
import { pathInRoot } from "../files/root-path.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import type { Execution, Wrapping } from "../process/process-launcher.ts";
import { readStat } from "../process/proc.ts";
import { programVariable } from "../process/process-tree.ts";

/*
 * How a program is put into bubblewrap. The shim executes, with three files open (3 status, 4 arguments, 5 filter),
 *
 *     bwrap (waits) --> bwrap (process 1 inside) --> program
 *
 * bwrap's options are in a file that only we can read: they hold the program's environment. bwrap writes to `status` which
 * process is process 1, and the exit code only if the program was executed: so one that could not be is told from one that
 * exits with 1.
 */

const statusFile = (folder: ProgramFolder): string => join(folder.path, "bwrap-status.json");
const argumentsFile = (folder: ProgramFolder): string => join(folder.path, "bwrap-arguments");
const temporaryFolder = (folder: ProgramFolder): string => join(folder.path, "tmp");

/** Whether bwrap has executed the program: only then does it say how it ended. */
function wasExecuted(folder: ProgramFolder): boolean {
  try {
    return readFileSync(statusFile(folder), "utf8").includes('"exit-code"');
  } catch {
    return false;
  }
}

/** The last pause, of 1, 2, 4 ... ms, for bwrap to say which process it started. */
const maxStartPauseMs = 1024;

/** Process 1 of a program's namespaces, by its number outside. */
async function innerProcess({ folder, deadlines }: LaunchRequest, wrapper: number): Promise<number> {
  for (let pauseMs = 1; pauseMs <= maxStartPauseMs; pauseMs *= 2) {
    const told = existsSync(statusFile(folder)) ? readFileSync(statusFile(folder), "utf8") : "";
    const inner = Number(/"child-pid": (\d+)/.exec(told)?.[1] ?? 0);
    // The number may be another process's by now. Between the two may be what was started in a terminal.
    const parent = readStat(inner)?.parent ?? 0;
    if (parent === wrapper || (parent > 1 && readStat(parent)?.parent === wrapper)) return inner;
    await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
  }
  throw new ExecutionError("NotRunning", `Program ${folder.id} is not running any more`);
}

/** What makes a process launcher one that starts programs in bubblewrap. */
export function createBubblewrapWrapping(options: {
  readonly bwrap: string;
  readonly binds: readonly BindMount[];
  /** File with a seccomp filter. Default: none. */
  readonly filter?: string;
}): Wrapping {
  return {
    rootOf: (request) => request.spec.isolation?.root,
    wrap(request, execution) {
      const { folder, spec } = request;
      if (spec.isolation?.image !== undefined) {
        throw new StartFailure("could not start the program: this driver has no images by name; give it isolation.root", 126);
      }
      createTemporaryFolder(temporaryFolder(folder));
      writeFileSync(statusFile(folder), "", { mode: 0o600 });
      const filter = options.filter === undefined ? [] : ["--seccomp", "5"];
      const words = [...filter, ...bwrapArguments(request, execution, options.binds)];
      writeFileSync(argumentsFile(folder), words.map((word) => `${word}\0`).join(""), { mode: 0o600 });
      // What starts the program does so as its user already.
      const user = hostUser(spec);
      if (user !== undefined) {
        for (const path of [statusFile(folder), argumentsFile(folder)]) chownSync(path, user.uid, user.gid);
      }
      return {
        command: [options.bwrap, "--json-status-fd", "3", "--args", "4", "--", ...execution.command],
        opened: { append: statusFile(folder), read: [argumentsFile(folder), options.filter ?? "/dev/null"] },
        // The folder inside may be a path that only the image has; bwrap goes there.
        cwd: folder.path,
        env: {},
      };
    },
    async join(request, exec, wrapper) {
      const { folder, spec } = request;
      const inner = await innerProcess(request, wrapper.pid);
      const env = { ...spec.env, ...exec.env };
      const cwd = spec.cwd ?? (spec.isolation?.root === undefined ? folder.work : imageWork);
      const all = [...worldArguments({ ...request, spec: { ...spec, env } }, cwd, options.binds)];
      const words = await mkdtemp(join(folder.path, "exec-"));
      const path = join(words, "arguments");
      // Only the network is entered from outside; bwrap enters the rest, and gives up every right that comes with it.
      const isAlone = spec.isolation?.network === "none";
      const enter = isAlone ? ["nsenter", `--net=/proc/${inner}/ns/net`, "--"] : [];
      const session = exec.terminal === undefined ? ["--new-session"] : [];
      const filter = options.filter === undefined ? [] : ["--seccomp", "6"];
      writeFileSync(path, [...filter, ...session, ...all].map((word) => `${word}\0`).join(""), { mode: 0o600 });
      const place = ["--userns", "4", "--pidns", "5", "--args", "3", "--"];
      const [first = options.bwrap, ...rest] = [...enter, options.bwrap, ...place, ...exec.command];
      return {
        command: [first, ...rest],
        cwd: folder.path,
        env: { PATH: defaultPath },
        temporary: words,
        files: [
          path,
          `/proc/${inner}/ns/user`,
          `/proc/${inner}/ns/pid`,
          ...(options.filter === undefined ? [] : [options.filter]),
        ],
      };
    },
    readStartError({ folder, spec }, exitCode) {
      if (exitCode !== 1 || wasExecuted(folder)) return undefined;
      const words = readErrorTail(folder, spec).trim();
      const failure = /^bwrap: execvp (.*): ([^:]*)$/.exec(words);
      if (failure === null) return words.startsWith("bwrap: ") ? { exitCode: 126, message: words } : undefined;
      const [, program = "", reason = ""] = failure;
      if (/no such file/i.test(reason)) return { exitCode: 127, message: `${basename(program)}: not found (${program})` };
      return { exitCode: 126, message: `${program}: ${reason}` };
    },
  };
}

function* bwrapArguments(request: LaunchRequest, execution: Execution, binds: readonly BindMount[]): Generator<string> {
  const { spec } = request;
  const { root, network = "shared" } = spec.isolation ?? {};
  yield* ["--unshare-user", "--unshare-pid"];
  const user = programUser(spec);
  // Who cannot become another user outside can look like one inside: its files are then that user's.
  if (user !== undefined && own.uid !== 0) yield* ["--uid", String(user.uid), "--gid", String(user.gid)];
  // A session of its own keeps it from typing into somebody else's terminal; one that has a terminal needs it.
  if (spec.terminal === undefined) yield "--new-session";
  if (network === "none") yield "--unshare-net";
  const cwd = root !== undefined && spec.cwd === undefined ? imageWork : execution.cwd;
  yield* worldArguments(request, cwd, binds);
}

/** What is the same for a program and for the commands beside it. */
function* worldArguments({ spec, folder }: LaunchRequest, cwd: string, binds: readonly BindMount[]): Generator<string> {
  const { root, hostname, binds: ownBinds = [] } = spec.isolation ?? {};
  yield* ["--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"];
  if (hostname !== undefined) yield* ["--hostname", hostname];
  const mounts = [...binds, ...ownBinds].map((bind) => ({
    ...bind,
    target: root === undefined ? bind.target : resolveInImage(root, bind.target),
  }));
  // The root is a folder in memory with the parts of the image, or of the machine, in it: so places for mounts can be made.
  if (root !== undefined) yield* imageRoot(root, mounts);
  else yield* machineRoot();
  yield* ["--proc", "/proc", "--dev", "/dev"];
  yield* ["--bind", temporaryFolder(folder), "/tmp"];
  yield* ["--tmpfs", "/run"];
  if (root === undefined || existsSync(pathInRoot(root, "/var/tmp"))) yield* ["--tmpfs", "/var/tmp"];
  if (root === undefined) {
    for (const path of hiddenFiles) if (existsSync(path)) yield* ["--ro-bind", "/dev/null", path];
  }
  for (const bind of mounts) {
    yield* [bind.isWritable === true ? "--bind" : "--ro-bind", bind.source, bind.target];
  }
  const work = folder.work;
  if (existsSync(work)) yield* ["--bind", work, root === undefined ? work : imageWork];
  yield* ["--remount-ro", "/"];
  yield "--clearenv";
  // Without cgroups, its processes are found by the tag.
  const home = root === undefined ? {} : { HOME: homeDirectory(spec) };
  const env = { PATH: defaultPath, ...home, ...spec.env, [programVariable]: folder.tag };
  for (const [name, value] of Object.entries(env)) yield* ["--setenv", name, value];
  yield* ["--chdir", cwd];
}
