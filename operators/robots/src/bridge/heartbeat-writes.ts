import { ignoreNotFound } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { Robot } from "../api/robot.ts";
import { changeDelayMs, type HeartbeatStatus } from "./heartbeats.ts";
import type { KeyedQueue } from "./keyed-queue.ts";

/** Options of {@link HeartbeatWrites}. */
export interface HeartbeatWritesOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly namespace: string;
  readonly fieldManager: string;
  readonly queue: KeyedQueue;
}

/** Writes what the bridge observes of robots. At most one write of each robot waits in the queue; it writes the latest status. A failed write is repeated. */
export class HeartbeatWrites {
  readonly #options: HeartbeatWritesOptions;
  /** Status that waits to be written, by robot. */
  readonly #waiting = new Map<string, HeartbeatStatus>();
  /** Robots of `#waiting` whose write failed and is not queued. */
  readonly #failed = new Set<string>();
  #retryTimer: Timer | undefined;
  #isStopped = false;

  constructor(options: HeartbeatWritesOptions) {
    this.#options = options;
  }

  /** Queues a write. Returns false if the queue is full. */
  write(robot: string, status: HeartbeatStatus): boolean {
    const isQueued = this.#waiting.has(robot) && !this.#failed.has(robot);
    this.#waiting.set(robot, status);
    this.#failed.delete(robot);
    if (isQueued || this.#push(robot)) return true;
    this.#waiting.delete(robot);
    return false;
  }

  /** Repeats no more writes. Those that are queued still run. */
  stop(): void {
    this.#isStopped = true;
    this.#retryTimer?.cancel();
    this.#retryTimer = undefined;
  }

  #push(robot: string): boolean {
    return this.#options.queue.push(`robot/${robot}`, () => this.#store(robot));
  }

  async #store(name: string): Promise<void> {
    const { client, namespace, fieldManager } = this.#options;
    const status = this.#waiting.get(name);
    this.#waiting.delete(name);
    if (status === undefined) return;
    // If the Robot was deleted, its next heartbeat creates it again.
    try {
      await ignoreNotFound(client.applyStatus(Robot, { metadata: { name, namespace }, status }, { fieldManager }));
    } catch (error) {
      this.#retryLater(name, status);
      throw error;
    }
  }

  /** Puts a status back, unless a newer one waits. */
  #retryLater(robot: string, status: HeartbeatStatus): void {
    if (this.#waiting.has(robot)) return;
    this.#waiting.set(robot, status);
    this.#failed.add(robot);
    this.#armRetry();
  }

  #armRetry(): void {
    if (this.#isStopped || this.#retryTimer !== undefined || this.#failed.size === 0) return;
    const onTimeout = (): void => {
      this.#retryTimer = undefined;
      for (const robot of [...this.#failed]) if (this.#push(robot)) this.#failed.delete(robot);
      this.#armRetry();
    };
    this.#retryTimer = this.#options.clock.setTimer(changeDelayMs, onTimeout, { background: true });
  }
}
