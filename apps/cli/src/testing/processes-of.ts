import { readdirSync, readFileSync, readlinkSync } from "node:fs";

interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

function allProcesses(): ProcessEntry[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      const [, parent = "0"] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      return [{ pid: Number(pid), parent: Number(parent), command }];
    } catch {
      // The process has exited.
      return [];
    }
  });
}

/** All processes whose command line contains `text`, for example a directory. */
export function processesOf(text: string): readonly { readonly pid: number; readonly command: string }[] {
  return allProcesses().filter(({ command }) => command.includes(text));
}

/**
 * Whether a process names a directory in its command line, working directory or environment. Mounts prove nothing: every process of the
 * machine sees those of a container runtime.
 */
function namesFolder({ pid, command }: ProcessEntry, folder: string): boolean {
  if (command.includes(folder)) return true;
  try {
    return [readlinkSync(`/proc/${pid}/cwd`), readFileSync(`/proc/${pid}/environ`, "latin1")].some((text) =>
      text.includes(folder),
    );
  } catch {
    // The process has exited, or belongs to another user.
    return false;
  }
}

/**
 * Command lines of the programs that use `folder`, or descend from one that does, and contain `text`; except those of `keelson up`
 * itself. Other tests run the same programs at the same time.
 */
export function programsOf(folder: string, text = ""): readonly string[] {
  const all = allProcesses().filter(({ pid }) => pid !== process.pid);
  const found = withDescendants(all, (each) => namesFolder(each, folder));
  return all
    .filter(({ pid, command }) => found.has(pid) && command.includes(text))
    .map(({ command }) => command)
    .filter((command) => !/keelson(\.js)? (up|apiserver|controllers|component) /.test(command));
}

/** The pids of a process, or of all processes whose command line contains a text, and of their descendants. */
export function descendantsOf(root: number | string): ReadonlySet<number> {
  return withDescendants(allProcesses(), ({ pid, command }) =>
    typeof root === "number" ? pid === root : command.includes(root),
  );
}

function withDescendants(all: readonly ProcessEntry[], isRoot: (process: ProcessEntry) => boolean): ReadonlySet<number> {
  const found = new Set(all.filter(isRoot).map(({ pid }) => pid));
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return found;
}

/** Kills all processes that use a directory, and their descendants, because Pods outlive `keelson up`. */
export function killProcessesOf(folder: string): void {
  const all = allProcesses().filter(({ pid }) => pid !== process.pid);
  for (const pid of withDescendants(all, (each) => namesFolder(each, folder))) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has exited.
    }
  }
}
