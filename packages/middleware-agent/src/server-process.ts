import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import type { Clock } from "@keelson/api-machinery/time";
import type { Outcome, StopOptions } from "./engine.ts";
import { programEnvironment } from "./program-environment.ts";

/** Maximum length of the output that an error message quotes. */
const maxTailLength = 1_000;
/** A guard that ended unexpectedly is replaced after this time. */
const guardRestartMs = 500;

/**
 * Reads timeouts in seconds from standard input and kills a process when one elapses without another line. An empty line ends the
 * timeout. At the end of the input the agent has died: the process gets the chance to save its data.
 */
const guardScript = `
pid=$1
limit=
end_program() {
  if [ "$3" = true ]; then
    kill -STOP "$1"
    for stat in /proc/[0-9]*/stat; do
      line=
      IFS= read -r line 2>/dev/null <"$stat"
      set -- "$1" "$2" "$3" \${line##*) }
      [ "$5" = "$1" ] && { stat=\${stat%/stat}; kill -KILL "\${stat#/proc/}"; }
    done
  fi
  kill -KILL "$1"
}
while :; do
  if [ -n "$limit" ]; then
    IFS= read -r -t "$limit" next; status=$?
    [ "$status" -gt 128 ] && { end_program "$@"; exit; }
  else
    IFS= read -r next; status=$?
  fi
  [ "$status" -ne 0 ] && { kill -"$2" "$pid" && sleep 2 && end_program "$@"; exit; }
  limit=$next
done
`;

/** Options of {@link ServerProcess}. */
export interface ServerProcessOptions {
  /** The signal that shuts the program down. Default `SIGTERM`. */
  readonly stopSignal?: NodeJS.Signals;
  /** The user of the program; by default that of the agent. Only root can change it. */
  readonly user?: { readonly uid: number; readonly gid: number };
  /** Kills the children of the program too, for programs whose children serve clients. */
  readonly killsChildren?: boolean;
}

/** The process of a server program. It is started once. */
export class ServerProcess {
  readonly #program: string;
  readonly #clock: Clock;
  readonly #options: ServerProcessOptions;
  #child: ChildProcess | undefined;
  #guard: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  /** When the guard kills the program, by the clock. */
  #guardDeadline: number | undefined;
  #tail = "";
  #failure: string | undefined;
  #isStopping = false;
  #reportEnd: (message: string) => void = () => undefined;

  /** Resolves with a message when the program exits without {@link stop}. */
  readonly ended = new Promise<string>((resolve) => {
    this.#reportEnd = resolve;
  });

  #reportExit: () => void = () => undefined;

  /** Resolves when the program itself has exited. Its children may still run, and hold its output open. */
  readonly exited = new Promise<void>((resolve) => {
    this.#reportExit = resolve;
  });

  constructor(program: string, clock: Clock, options: ServerProcessOptions = {}) {
    this.#program = program;
    this.#clock = clock;
    this.#options = options;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Why the program exited or could not be started, with the end of its output. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** Starts the program. Returns its pid; undefined if it could not be started, see {@link failure}. */
  start(args: readonly string[], cwd: string): number | undefined {
    const child = spawn(this.#program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      cwd,
      env: programEnvironment(),
      ...this.#options.user,
    });
    this.#child = child;
    this.#forward(child.stdout, process.stdout);
    this.#forward(child.stderr, process.stderr);
    child.once("exit", () => this.#reportExit());
    this.#exited = new Promise((resolve) => {
      child.once("error", (error) => {
        this.#failure = error.message;
        if (child.pid === undefined) this.#reportExit();
        resolve();
      });
      // After its output has been read.
      child.once("close", (code, signal) => {
        const output = this.#tail.trim();
        this.#failure ??= `${this.#program} exited with ${signal ?? `code ${code}`}${output === "" ? "" : `: ${output}`}`;
        resolve();
      });
    });
    void this.#exited.then(() => {
      if (!this.#isStopping) this.#reportEnd(this.#failure ?? "exited");
    });
    return child.pid;
  }

  /**
   * Kills the program after `timeoutMs` unless this is called again. A process of its own does that, so that it also happens if this
   * one is frozen or dies. Undefined ends the timeout.
   */
  guard(timeoutMs: number | undefined): void {
    this.#guardDeadline = timeoutMs === undefined ? undefined : this.#clock.monotonic() + timeoutMs;
    this.#guard ??= this.#startGuard();
    this.#guard?.stdin?.write(timeoutMs === undefined ? "\n" : `${(Math.max(timeoutMs, 1) / 1_000).toFixed(3)}\n`);
  }

  #startGuard(): ChildProcess | undefined {
    const { pid } = this.#child ?? {};
    if (pid === undefined || this.#isStopping || this.#failure !== undefined) return undefined;
    const { stopSignal = "SIGTERM", killsChildren = false } = this.#options;
    const args = ["keelson-guard", String(pid), stopSignal.slice(3), String(killsChildren)];
    const guard = spawn("bash", ["-c", guardScript, ...args], {
      stdio: ["pipe", "ignore", "ignore"],
      env: programEnvironment(),
    });
    guard.on("error", (error) => process.stderr.write(`the guard of ${this.#program} could not start: ${error.message}\n`));
    // The guard may have ended with its program.
    guard.stdin.on("error", () => undefined);
    guard.once("exit", () => this.#replaceGuard(guard));
    void this.#exited.then(() => guard.kill("SIGKILL"));
    return guard;
  }

  #replaceGuard(guard: ChildProcess): void {
    if (this.#guard !== guard) return;
    this.#guard = undefined;
    this.#clock.setTimer(guardRestartMs, () => {
      if (this.#guard !== undefined || this.#isStopping || this.#failure !== undefined) return;
      this.guard(this.#guardDeadline === undefined ? undefined : this.#guardDeadline - this.#clock.monotonic());
    });
  }

  /** Kills the program, and its children if {@link ServerProcessOptions.killsChildren}. */
  kill(): void {
    const { pid } = this.#child ?? {};
    if (this.#options.killsChildren === true && pid !== undefined && this.#failure === undefined) {
      // It must not start more of them meanwhile.
      this.#child?.kill("SIGSTOP");
      for (const child of childrenOf(pid)) killIfRunning(child);
    }
    this.#child?.kill("SIGKILL");
  }

  /** Stops the program with SIGTERM, and with `force` by SIGKILL after the timeout. */
  async stop({ timeoutMs, force }: StopOptions): Promise<Outcome> {
    this.#isStopping = true;
    // It must not interrupt a program that saves its data.
    this.#guard?.kill("SIGKILL");
    this.#guard = undefined;
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return { ok: true };
    child.kill(this.#options.stopSignal ?? "SIGTERM");
    let onTimeout = (): void => undefined;
    const timedOut = new Promise<false>((resolve) => {
      onTimeout = () => resolve(false);
    });
    const timer = this.#clock.setTimer(timeoutMs, () => onTimeout());
    const hasExited = await Promise.race([this.#exited.then(() => true), timedOut]);
    // A pending timer would keep the agent alive after its program.
    timer.cancel();
    if (hasExited) return { ok: true };
    if (!force) return { ok: false, error: `${this.#program} did not exit within ${timeoutMs} ms` };
    this.kill();
    await this.#exited;
    return { ok: true };
  }

  /** Forwards output to the log of the Pod, and keeps its end. */
  #forward(from: NodeJS.ReadableStream, to: NodeJS.WritableStream): void {
    from.on("data", (chunk: Buffer) => {
      to.write(chunk);
      this.#tail = (this.#tail + chunk.toString("utf8")).slice(-maxTailLength);
    });
  }
}

function killIfRunning(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

/** Ids of the running children of a process. */
function childrenOf(pid: number): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((each) => parentOf(each) === pid);
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    // It has ended meanwhile.
    return undefined;
  }
}
