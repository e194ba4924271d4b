import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client, ListOptions, StoredList } from "@keelson/client";
import { InterceptedClient } from "../reconcile/intercepted-client.ts";

/** Requests for lists that one cache has under way at once. */
const places = 8;
/** After this long a list no longer keeps others waiting: what it waits for itself may be one of them. */
const patienceMs = 10_000;

/**
 * A client whose lists take turns, page by page, so that informers that begin together (at a start, or when a server has forgotten
 * where all of them stood) do not ask for everything at once. A list that fails or is given up leaves its place.
 */
export class ListGate extends InterceptedClient {
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  #free = places;

  constructor(client: Client, clock: Clock) {
    super(client, {});
    this.#clock = clock;
  }

  override async list<T extends KubernetesObject>(type: ResourceType<T>, options?: ListOptions): Promise<StoredList<T>> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    let hasPlace = true;
    const leave = (): void => {
      if (!hasPlace) return;
      hasPlace = false;
      timer.cancel();
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    };
    const timer = this.#clock.setTimer(patienceMs, leave, { background: true });
    try {
      options?.signal?.throwIfAborted();
      return await super.list(type, options);
    } finally {
      leave();
    }
  }
}
