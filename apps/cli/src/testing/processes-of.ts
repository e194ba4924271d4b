import { readdirSync, readFileSync } from "node:fs";

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

/** All processes whose command line contains `text`, for example a folder. */
export function processesOf(text: string): readonly { readonly pid: number; readonly command: string }[] {
  return allProcesses().filter(({ command }) => command.includes(text));
}

/** Kills all processes that refer to a folder, and their descendants, because Pods outlive `keelson up`. */
export function killProcessesOf(folder: string): void {
  const all = allProcesses().filter(({ pid }) => pid !== process.pid);
  const targets = new Set(all.filter(({ command }) => command.includes(folder)).map(({ pid }) => pid));
  for (let size = -1; size !== targets.size; ) {
    size = targets.size;
    for (const { pid, parent } of all) if (targets.has(parent)) targets.add(pid);
  }
  for (const pid of targets) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has exited.
    }
  }
}
