import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/*
 * A small shell that kills programs whose lease has ended, while no agent is alive to do it. It reads one file per program: the end of the lease
 * in seconds since boot, the process, and the start time of the process, which tells it from a later one with the same number. It ends when
 * there are no more files.
 */
const script = `cd "$1" || exit 1
echo "$$" >guard.pid
while sleep 1; do
  read -r up rest </proc/uptime
  found=
  for file in *.lease; do
    [ -f "$file" ] || continue
    found=1
    read -r end pid start <"$file" || continue
    [ "\${up%%.*}" -ge "$end" ] || continue
    stat=
    { read -r stat <"/proc/$pid/stat"; } 2>/dev/null
    set -- \${stat##*) }
    [ "\${20:-}" = "$start" ] && kill -9 "-$3"
    rm -f "$file"
  done
  [ -n "$found" ] || exit 0
done`;

/** A program that may run until its lease ends. */
export interface GuardedProgram {
  /** Name of the program: a valid file name. */
  readonly id: string;
  readonly pid: number;
  /** End of the lease by the boot clock. */
  readonly untilMs: number;
}

/** Starts the guard's shell in a directory, detached. */
export type StartGuard = (dir: string) => void;

/**
 * Enforces leases while the agent is dead.
 *
 * **Limits**: it kills the program's process group. Processes that left the group survive until an agent returns.
 */
export class LeaseGuard {
  readonly #dir: string;
  readonly #start: StartGuard;

  constructor(dir: string, start: StartGuard = startGuardShell) {
    this.#dir = dir;
    this.#start = start;
  }

  /** Records the end of a program's lease; resolves when it is on disk and the guard runs. */
  async record({ id, pid, untilMs }: GuardedProgram): Promise<void> {
    const startTime = statFieldsOf(pid)?.[19];
    if (startTime === undefined) return;
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    const file = this.#fileOf(id);
    await writeFile(`${file}.new`, `${Math.floor(untilMs / 1000)} ${pid} ${startTime}\n`, { mode: 0o600 });
    try {
      await rename(`${file}.new`, file);
    } catch {
      // Something else took its place, such as a directory after damage of the disk.
      await rm(file, { recursive: true, force: true });
      await rename(`${file}.new`, file);
    }
    if (!(await this.#isRunning())) this.#start(this.#dir);
  }

  /** The recorded end of a program's lease by the boot clock. Undefined if there is none, or it cannot be read. */
  async endOf(id: string): Promise<number | undefined> {
    const [end = ""] = (await readFile(this.#fileOf(id), "utf8").catch(() => "")).split(" ");
    return /^\d+$/.test(end) ? Number(end) * 1000 : undefined;
  }

  /** Forgets a program that has ended. */
  async forget(id: string): Promise<void> {
    await rm(this.#fileOf(id), { recursive: true, force: true });
  }

  /** Forgets all programs but these. */
  async retain(ids: ReadonlySet<string>): Promise<void> {
    const files = await readdir(this.#dir).catch(() => []);
    for (const file of files) {
      if (file.endsWith(".lease") && !ids.has(file.slice(0, -".lease".length)))
        await rm(join(this.#dir, file), { recursive: true, force: true });
    }
  }

  #fileOf(id: string): string {
    return join(this.#dir, `${id}.lease`);
  }

  async #isRunning(): Promise<boolean> {
    const pid = Number(await readFile(join(this.#dir, "guard.pid"), "utf8").catch(() => ""));
    if (!(pid > 0)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(this.#dir);
    } catch {
      return false;
    }
  }
}

/** Fields of `/proc/<pid>/stat` from the third one (the state) on. Undefined if there is no process. */
function statFieldsOf(pid: number): readonly string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

function startGuardShell(dir: string): void {
  const guard = spawn("/bin/sh", ["-c", script, "keelson-lease-guard", dir], { detached: true, stdio: "ignore" });
  // Without a shell, leases are enforced only while the agent is alive.
  guard.on("error", () => {});
  guard.unref();
}
