import { ignoreNotFound } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { Robot } from "../api/robot.ts";
import type { HeartbeatStatus } from "./heartbeats.ts";
import type { KeyedQueue } from "./keyed-queue.ts";

/** Options of {@link HeartbeatWrites}. */
export interface HeartbeatWritesOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly fieldManager: string;
  readonly queue: KeyedQueue;
}

/** Writes what the bridge observes of robots. At most one write of each robot waits in the queue; it writes the latest status. */
export class HeartbeatWrites {
  readonly #options: HeartbeatWritesOptions;
  /** Status that waits to be written, by robot. */
  readonly #waiting = new Map<string, HeartbeatStatus>();

  constructor(options: HeartbeatWritesOptions) {
    this.#options = options;
  }

  /** Queues a write. Returns false if the queue is full. */
  write(robot: string, status: HeartbeatStatus): boolean {
    const isQueued = this.#waiting.has(robot);
    this.#waiting.set(robot, status);
    if (isQueued || this.#options.queue.push(`robot/${robot}`, () => this.#store(robot))) return true;
    this.#waiting.delete(robot);
    return false;
  }

  async #store(name: string): Promise<void> {
    const { client, namespace, fieldManager } = this.#options;
    const status = this.#waiting.get(name);
    this.#waiting.delete(name);
    if (status === undefined) return;
    // If the Robot was deleted, its next heartbeat creates it again.
    await ignoreNotFound(client.applyStatus(Robot, { metadata: { name, namespace }, status }, { fieldManager }));
  }
}
