import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client, ListOptions, StoredList } from "@keelson/client";
import { InterceptedClient } from "../reconcile/intercepted-client.ts";

/** Maximum number of concurrent list requests of one cache. */
const maxConcurrentLists = 8;
/** After this time a list no longer blocks others: it may itself depend on one of them. */
const maxHoldMs = 10_000;

/**
 * A client that limits concurrent lists, page by page, so that informers that start together, or relist together after the server compacted
 * their versions, do not request everything at the same time. A list that fails or is cancelled releases its slot.
 */
export class ListGate extends InterceptedClient {
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  #free = maxConcurrentLists;

  constructor(client: Client, clock: Clock) {
    super(client, {});
    this.#clock = clock;
  }

  override async list<T extends KubernetesObject>(type: ResourceType<T>, options?: ListOptions): Promise<StoredList<T>> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    let hasSlot = true;
    const release = (): void => {
      if (!hasSlot) return;
      hasSlot = false;
      timer.cancel();
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    };
    const timer = this.#clock.setTimer(maxHoldMs, release, { background: true });
    try {
      options?.signal?.throwIfAborted();
      return await super.list(type, options);
    } finally {
      release();
    }
  }
}
