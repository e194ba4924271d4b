import type { Clock } from "@keelson/api-machinery/time";
import type { EngineOptions } from "@keelson/middleware-agent";

/** A process that is stopped for this long does not continue by itself. Shorter stops are those of a server that is being killed. */
const patienceMs = 1_500;

/** Options of {@link StoppedProcesses}. */
export interface StoppedProcessesOptions {
  readonly clock: Clock;
  readonly log: Pick<EngineOptions["log"], "error">;
  /** The state of a process, as in field 3 of its `stat`; undefined if it has ended. */
  readonly stateOf: (pid: number) => Promise<string | undefined>;
  /** Ends the server. */
  readonly end: () => void;
}

/**
 * Ends a server of which an important process is stopped, as by SIGSTOP. Its open sessions may still be served, but it accepts no new ones,
 * or its log and its data are not written out.
 */
export class StoppedProcesses {
  readonly #options: StoppedProcessesOptions;
  /** Since when each process has been stopped. */
  readonly #since = new Map<number, number>();

  constructor(options: StoppedProcessesOptions) {
    this.#options = options;
  }

  /** Checks the processes. Resolves to whether the server was ended. */
  async check(pids: readonly number[]): Promise<boolean> {
    const { clock, log, stateOf, end } = this.#options;
    for (const known of this.#since.keys()) if (!pids.includes(known)) this.#since.delete(known);
    const states = await Promise.all(pids.map(async (pid) => [pid, await stateOf(pid)] as const));
    const now = clock.monotonic();
    let isStopped = false;
    for (const [pid, state] of states) {
      if (state !== "T") this.#since.delete(pid);
      else if (!this.#since.has(pid)) this.#since.set(pid, now);
      else if (now - (this.#since.get(pid) ?? now) >= patienceMs) isStopped = true;
    }
    if (!isStopped) return false;
    log.error({ pids: [...this.#since.keys()] }, "ending the server: its processes are stopped");
    this.#since.clear();
    end();
    return true;
  }
}
