import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { lastLine } from "./last-line.ts";
import type { LaunchRequest } from "./launcher.ts";
import type { BindMount } from "./isolation.ts";
import { defaultPath } from "./program-spec.ts";
import { pathInRoot } from "./root-path.ts";
import type { ProgramFolder } from "./program-folder.ts";
import type { Execution, Wrapping } from "./process-launcher.ts";
import { programVariable } from "./process-tree.ts";

/*
 * How a program is put into bubblewrap. The shim executes
 *
 *     sh -c 'exec 3>>status 4<arguments; exec bwrap ...' --> bwrap (waits) --> bwrap (process 1 inside) --> program
 *
 * bwrap's options are in a file that only we can read: they hold the program's environment. bwrap writes to `status` which
 * process is process 1, and the exit code only if the program was executed: so one that could not be is told from one that
 * exits with 1.
 */

/** Where a program with an image has its work folder. */
const imageWork = "/work";

const script = 'exec 3>>"$1" 4<"$2"; bwrap=$3; shift 3; exec "$bwrap" --json-status-fd 3 --args 4 -- "$@"';

const statusFile = (folder: ProgramFolder): string => join(folder.path, "bwrap-status.json");
const argumentsFile = (folder: ProgramFolder): string => join(folder.path, "bwrap-arguments");
const temporaryFolder = (folder: ProgramFolder): string => join(folder.path, "tmp");

/** Folders of the machine that a program without an image sees, read-only, where they are. */
const machineFolders = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"];

/** What hides in the machine's own `/etc`: nothing of it is for a program that is kept apart from the machine. */
const hiddenFiles = ["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"];

/** Whether bwrap has executed the program: only then does it say how it ended. */
function wasExecuted(folder: ProgramFolder): boolean {
  try {
    return readFileSync(statusFile(folder), "utf8").includes('"exit-code"');
  } catch {
    return false;
  }
}

/** What makes a process launcher one that starts programs in bubblewrap. */
export function createBubblewrapWrapping(options: { readonly bwrap: string; readonly binds: readonly BindMount[] }): Wrapping {
  return {
    rootOf: (request) => request.spec.isolation?.root,
    wrap(request, execution) {
      const { folder } = request;
      mkdirSync(temporaryFolder(folder), { recursive: true, mode: 0o1777 });
      rmSync(statusFile(folder), { force: true });
      const words = [...bwrapArguments(request, execution, options.binds)];
      writeFileSync(argumentsFile(folder), words.map((word) => `${word}\0`).join(""), { mode: 0o600 });
      return {
        command: [
          "/bin/sh",
          "-c",
          script,
          "keelson-bubblewrap",
          statusFile(folder),
          argumentsFile(folder),
          options.bwrap,
          ...execution.command,
        ],
        // The folder inside may be a path that only the image has; bwrap goes there.
        cwd: folder.path,
        env: {},
      };
    },
    startProblem(folder, exitCode) {
      if (exitCode !== 1 || wasExecuted(folder)) return undefined;
      const words = lastLine(folder.stderr);
      const failure = /^bwrap: execvp (.*): ([^:]*)$/.exec(words);
      if (failure === null) return words.startsWith("bwrap: ") ? { exitCode: 126, message: words } : undefined;
      const [, program = "", reason = ""] = failure;
      if (/no such file/i.test(reason)) return { exitCode: 127, message: `${basename(program)}: not found (${program})` };
      return { exitCode: 126, message: `${program}: ${reason}` };
    },
  };
}

function* bwrapArguments(
  { spec, folder }: LaunchRequest,
  execution: Execution,
  binds: readonly BindMount[],
): Generator<string> {
  const { root, network = "shared", hostname, binds: ownBinds = [] } = spec.isolation ?? {};
  yield* ["--unshare-user", "--unshare-ipc", "--unshare-uts", "--unshare-pid"];
  if (network === "none") yield "--unshare-net";
  if (hostname !== undefined) yield* ["--hostname", hostname];
  yield* ["--cap-drop", "ALL", "--new-session"];
  // The root is a folder in memory with the parts of the image, or of the machine, in it: so places for mounts can be made.
  if (root !== undefined) yield* imageRoot(root);
  else yield* machineRoot();
  yield* ["--proc", "/proc", "--dev", "/dev"];
  yield* ["--bind", temporaryFolder(folder), "/tmp"];
  yield* ["--tmpfs", "/run"];
  if (root === undefined || existsSync(pathInRoot(root, "/var/tmp"))) yield* ["--tmpfs", "/var/tmp"];
  if (root === undefined) {
    for (const path of hiddenFiles) if (existsSync(path)) yield* ["--ro-bind", "/dev/null", path];
  }
  for (const bind of [...binds, ...ownBinds]) {
    yield* [bind.isWritable === true ? "--bind" : "--ro-bind", bind.source, bind.target];
  }
  const work = folder.work;
  if (existsSync(work)) yield* ["--bind", work, root === undefined ? work : imageWork];
  yield* ["--remount-ro", "/"];
  yield "--clearenv";
  // Without cgroups, its processes are found by the tag.
  const env = { PATH: defaultPath, ...spec.env, [programVariable]: folder.tag };
  for (const [name, value] of Object.entries(env)) yield* ["--setenv", name, value];
  yield* ["--chdir", root !== undefined && spec.cwd === undefined ? imageWork : execution.cwd];
}

/** What the kernel or we put into a root. */
const notOfImages: ReadonlySet<string> = new Set(["proc", "dev", "sys", "tmp", "run"]);

function* imageRoot(root: string): Generator<string> {
  for (const entry of readdirSync(root, { withFileTypes: true })) {
    if (notOfImages.has(entry.name)) continue;
    const path = join(root, entry.name);
    if (entry.isSymbolicLink()) yield* ["--symlink", readlinkSync(path), `/${entry.name}`];
    else yield* ["--ro-bind", path, `/${entry.name}`];
  }
}

function* machineRoot(): Generator<string> {
  for (const path of machineFolders) {
    if (!existsSync(path)) continue;
    // A link into /usr (as on machines with a merged one) stays a link, so that programs see what they would see outside.
    if (lstatSync(path).isSymbolicLink()) yield* ["--symlink", readlinkSync(path), path];
    else yield* ["--ro-bind", path, path];
  }
  yield* ["--dir", "/var"];
}
