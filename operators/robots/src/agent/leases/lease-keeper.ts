import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { LeaseAnswer, LeasedTask, LeaseRequest } from "../../protocol/messages.ts";
import type { AgentEvent } from "../held-task.ts";

/** Options of a {@link LeaseKeeper}. */
export interface LeaseKeeperOptions {
  readonly clock: Clock;
  /** The robot's boot clock in milliseconds. It counts while the computer is suspended and never jumps. */
  readonly bootMs: () => number;
  /** Distinguishes the requests of this start of the agent. */
  readonly instanceId: string;
  readonly demand: () => { readonly tasks: readonly LeasedTask[]; readonly intervalMs: number };
  /** Publishes a request. It may be lost. */
  readonly publish: (request: LeaseRequest) => void;
  readonly onEvent: (event: AgentEvent) => void;
}

/** Leases are checked this often. After a suspension, a program runs for this long at most alongside a replacement. */
const checkIntervalMs = 1_000;

/** Maximum number of unanswered requests whose time is remembered. */
const maxRequests = 16;

/** Renews leases and notices when they expire. It has a timer only while there are leases. */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #sentAtMs = new Map<string, number>();
  #requests = 0;
  #requestedAtMs = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
  }

  /** Requests all leases now, and then regularly. */
  request(): void {
    const { demand, bootMs, instanceId, publish } = this.#options;
    const { tasks } = demand();
    if (this.#isStopped || tasks.length === 0) return;
    const nonce = `${instanceId}.${++this.#requests}`;
    // Read before the request is sent: the lease counts from here.
    this.#requestedAtMs = bootMs();
    this.#sentAtMs.set(nonce, this.#requestedAtMs);
    const [oldest] = this.#sentAtMs.keys();
    if (this.#sentAtMs.size > maxRequests && oldest !== undefined) this.#sentAtMs.delete(oldest);
    publish({ nonce, tasks });
    this.check();
  }

  /** Handles the server's answer. */
  answered({ nonce, granted, refused }: LeaseAnswer): void {
    const requestedAtMs = this.#sentAtMs.get(nonce);
    if (requestedAtMs === undefined || this.#isStopped) return;
    this.#sentAtMs.delete(nonce);
    const { onEvent, bootMs } = this.#options;
    onEvent({ kind: "lease-answer", granted, refused, requestedAtMs, bootMs: bootMs() });
  }

  /** Stops programs whose lease expires, and continues to check while there are leases. */
  check(): void {
    const { clock, bootMs, demand, onEvent } = this.#options;
    if (this.#isStopped) return;
    onEvent({ kind: "lease-check", bootMs: bootMs() });
    const { tasks, intervalMs } = demand();
    this.#timer?.cancel();
    this.#timer = undefined;
    if (tasks.length === 0) return;
    this.#timer = clock.setTimer(checkIntervalMs, () => {
      if (bootMs() - this.#requestedAtMs >= intervalMs) this.request();
      else this.check();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }
}
