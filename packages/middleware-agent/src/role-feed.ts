import { jsonEquals } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Engine, EngineRole } from "./engine.ts";

/** Poll intervals: while a program is starting or out of sync, and while it is in sync. */
const unsettledMs = 50;
const settledMs = 1_000;

/**
 * Publishes changes of a program's role. Redis has no notification for a changed link or role, so its own agent polls it over
 * loopback, and only while there is a subscriber. Nothing else polls.
 */
export class RoleFeed {
  readonly #engine: Pick<Engine, "role">;
  readonly #clock: Clock;
  readonly #subscribers = new Set<() => void>();
  #last: EngineRole | undefined;
  #version = 0;
  #timer: Timer | undefined;

  constructor(engine: Pick<Engine, "role">, clock: Clock) {
    this.#engine = engine;
    this.#clock = clock;
  }

  /** Whether a controller watches the role. */
  get hasSubscribers(): boolean {
    return this.#subscribers.size > 0;
  }

  /** Queries the program now and notifies subscribers of a change. Rejects if the program does not respond. */
  async refresh(): Promise<EngineRole> {
    try {
      const role = await this.#engine.role();
      this.#update(role);
      return role;
    } catch (error) {
      this.#update({ role: "unknown", info: {} });
      throw error;
    }
  }

  /** Yields the current role immediately and after each change, until the signal fires. A slow subscriber skips states. */
  async *changes(signal: AbortSignal): AsyncGenerator<EngineRole> {
    let wake = (): void => undefined;
    const onChange = (): void => wake();
    this.#subscribers.add(onChange);
    signal.addEventListener("abort", onChange, { once: true });
    try {
      await this.refresh().catch(() => undefined);
      let seen = 0;
      while (!signal.aborted) {
        if (seen !== this.#version && this.#last !== undefined) {
          seen = this.#version;
          yield this.#last;
        } else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    } finally {
      this.#subscribers.delete(onChange);
      if (this.#subscribers.size === 0) this.#timer?.cancel();
      signal.removeEventListener("abort", onChange);
    }
  }

  #update(next: EngineRole): void {
    const isSame = this.#last !== undefined && jsonEquals(withoutOffset(this.#last), withoutOffset(next));
    this.#last = next;
    if (!isSame) {
      this.#version += 1;
      for (const notify of this.#subscribers) notify();
    }
    this.#schedule();
  }

  #schedule(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#subscribers.size === 0) return;
    const isSettled = this.#last !== undefined && this.#last.role !== "unknown" && this.#last.info.isInSync !== "false";
    const poll = (): void => void this.refresh().catch(() => undefined);
    this.#timer = this.#clock.setTimer(isSettled ? settledMs : unsettledMs, poll, { background: true });
  }
}

/** A role without the replication offset, which changes with every write. */
function withoutOffset({ role, info }: EngineRole): object {
  return { role, info: { ...info, offset: "" } };
}
