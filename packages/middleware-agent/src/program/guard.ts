import { type ChildProcess, spawn } from "node:child_process";
import type { Clock } from "@keelson/api-machinery/time";
import { programEnvironment } from "./program-environment.ts";

/** A guard that ended unexpectedly is replaced after this time. */
const restartMs = 500;

/**
 * Reads timeouts in seconds from standard input and kills a process when one elapses without another line. An empty line ends the
 * timeout. At the end of the input the agent has died: the process gets the chance to save its data. POSIX, for images without bash.
 */
const script = `
pid=$1
signal=$2
kills_children=$3
timer=
sleep 0.001 2>/dev/null && has_fractions=true
end_program() {
  # A renewal that comes now is too late: it must not leave the process stopped.
  trap "" TERM
  if [ "$kills_children" = true ]; then
    kill -STOP "$pid"
    for stat in /proc/[0-9]*/stat; do
      line=
      IFS= read -r line 2>/dev/null <"$stat"
      set -- \${line##*) }
      [ "$2" = "$pid" ] && { stat=\${stat%/stat}; kill -KILL "\${stat#/proc/}"; }
    done
  fi
  kill -KILL "$pid"
}
start_timer() {
  trap '[ -n "$nap" ] && kill "$nap"; exit' TERM
  sleep "$1" &
  nap=$!
  wait "$nap"
  end_program
}
while IFS= read -r limit; do
  [ -n "$timer" ] && kill "$timer"
  timer=
  [ -n "$limit" ] || continue
  [ -n "$has_fractions" ] || limit=\${limit%.*}
  start_timer "$limit" </dev/null &
  timer=$!
done
[ -n "$timer" ] && kill "$timer"
kill -"$signal" "$pid" && sleep 2 && end_program
`;

/** Options of {@link Guard}. */
export interface GuardOptions {
  /** The process to guard. */
  readonly pid: number;
  /** Name of its program, for messages. */
  readonly name: string;
  /** Shuts the process down when the agent has died. */
  readonly stopSignal: NodeJS.Signals;
  /** Kills the children of the process too. */
  readonly killsChildren: boolean;
  readonly clock: Clock;
}

/** Kills a process when its time ends or the agent dies, from its own process. It is replaced if it is killed. */
export class Guard {
  readonly #options: GuardOptions;
  #process: ChildProcess;
  /** When the guard kills the process, by the clock. */
  #deadline: number | undefined;
  #isEnded = false;

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#process = this.#start();
  }

  /** Kills the process after this time unless this is called again. Undefined: never. */
  set(timeoutMs: number | undefined): void {
    this.#deadline = timeoutMs === undefined ? undefined : this.#options.clock.monotonic() + timeoutMs;
    this.#process.stdin?.write(timeoutMs === undefined ? "\n" : `${(Math.max(timeoutMs, 1) / 1_000).toFixed(3)}\n`);
  }

  /** Ends the guard. The process continues. */
  end(): void {
    this.#isEnded = true;
    killGroup(this.#process);
  }

  #start(): ChildProcess {
    const { pid, name, stopSignal, killsChildren, clock } = this.#options;
    const args = ["keelson-guard", String(pid), stopSignal.slice(3), String(killsChildren)];
    // Its own group, so that its timer ends with it.
    const child = spawn("sh", ["-c", script, ...args], {
      stdio: ["pipe", "ignore", "ignore"],
      env: programEnvironment(),
      detached: true,
    });
    child.on("error", (error) => process.stderr.write(`the guard of ${name} could not start: ${error.message}\n`));
    // The guard may have ended with its program.
    child.stdin.on("error", () => undefined);
    child.once("exit", () => {
      if (this.#isEnded) return;
      // The timer of a guard that was killed would miss later deadlines.
      killGroup(child);
      clock.setTimer(restartMs, () => {
        if (this.#isEnded) return;
        this.#process = this.#start();
        this.set(this.#deadline === undefined ? undefined : this.#deadline - clock.monotonic());
      });
    });
    return child;
  }
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
