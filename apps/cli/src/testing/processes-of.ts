import { readdirSync, readFileSync } from "node:fs";

interface SeenProcess {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

function allProcesses(): SeenProcess[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      const [, parent = "0"] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      return [{ pid: Number(pid), parent: Number(parent), command }];
    } catch {
      // It has ended meanwhile.
      return [];
    }
  });
}

/** Command lines of the processes of this machine that name a folder. */
export function processesOf(folder: string): string[] {
  return allProcesses().flatMap(({ command }) => (command.includes(folder) ? [command] : []));
}

/** Ends the processes that name a folder, and their children: Pods outlive `keelson up`, and the next test has the same addresses. */
export function killProcessesOf(folder: string): void {
  const all = allProcesses().filter(({ pid }) => pid !== process.pid);
  const doomed = new Set(all.filter(({ command }) => command.includes(folder)).map(({ pid }) => pid));
  for (let size = -1; size !== doomed.size; ) {
    size = doomed.size;
    for (const { pid, parent } of all) if (doomed.has(parent)) doomed.add(pid);
  }
  for (const pid of doomed) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}
