import { readFile } from "node:fs/promises";

/** All processes of a server, stopped by SIGSTOP. */
export class FrozenServer {
  /** Process ids with their start times, because ids are reused. */
  readonly #processes: ReadonlyMap<number, string>;

  private constructor(processes: ReadonlyMap<number, string>) {
    this.#processes = processes;
  }

  /** Freezes the main process of a server, then its children: no new one appears in between. */
  static async freeze(pid: number): Promise<FrozenServer> {
    process.kill(pid, "SIGSTOP");
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
    const processes = new Map<number, string>();
    for (const each of [pid, ...children.split(" ").filter(Boolean).map(Number)]) {
      const start = await startOf(each);
      if (start === undefined) continue;
      if (each !== pid) process.kill(each, "SIGSTOP");
      processes.set(each, start);
    }
    return new FrozenServer(processes);
  }

  /** Continues what is left of the server, and returns it. */
  async continue(): Promise<readonly number[]> {
    const left: number[] = [];
    for (const [pid, start] of this.#processes) {
      if ((await startOf(pid)) !== start) continue;
      process.kill(pid, "SIGCONT");
      left.push(pid);
    }
    return left;
  }
}

/** Start time of a process, fields 3 and 22 of its `stat`; undefined if it has ended. */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}
