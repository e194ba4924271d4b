import type { StoreEvent } from "../store.ts";

type Listener = (events: readonly StoreEvent[]) => void;

interface Watcher {
  readonly prefix: string;
  readonly listener: Listener;
  /** The newest revision that it has seen, or that it starts after. */
  seen: number;
}

/**
 * Delivers committed events to watchers. Watchers are indexed by resource, so one of `pods` costs nothing when leases change, and all
 * watchers of a resource receive the same array.
 */
export class WatchHub {
  readonly #byResource = new Map<string, Set<Watcher>>();
  readonly #onListenerError: (error: unknown) => void;

  /** `onListenerError` receives what a listener throws. */
  constructor(onListenerError: (error: unknown) => void) {
    this.#onListenerError = onListenerError;
  }

  add(prefix: string, after: number, listener: Listener): { close(): void } {
    const resource = resourceOf(prefix);
    const watcher: Watcher = { prefix, listener, seen: after };
    const watchers = this.#byResource.get(resource) ?? new Set();
    this.#byResource.set(resource, watchers.add(watcher));
    return {
      close: () => {
        watchers.delete(watcher);
        if (watchers.size === 0 && this.#byResource.get(resource) === watchers) this.#byResource.delete(resource);
      },
    };
  }

  publish(events: readonly StoreEvent[]): void {
    const revision = events.at(-1)?.revision ?? 0;
    for (const [resource, group] of this.#groups(events)) {
      // A copy, because a listener may open or close watches.
      for (const watcher of Array.from(this.#byResource.get(resource) ?? [])) {
        if (this.#byResource.get(resource)?.has(watcher)) this.#deliver(watcher, group, revision);
      }
    }
  }

  /** The events of each watched resource; those of `""` are all events. */
  #groups(events: readonly StoreEvent[]): ReadonlyMap<string, readonly StoreEvent[]> {
    const groups = new Map<string, StoreEvent[]>();
    for (const event of events) {
      const resource = resourceOf(event.object.key);
      if (!this.#byResource.has(resource)) continue;
      const group = groups.get(resource);
      if (group) group.push(event);
      else groups.set(resource, [event]);
    }
    if (this.#byResource.has("")) groups.set("", [...events]);
    return groups;
  }

  #deliver(watcher: Watcher, events: readonly StoreEvent[], revision: number): void {
    const after = watcher.seen;
    if (after >= revision) return;
    watcher.seen = revision;
    const matchesAll =
      (events[0]?.revision ?? 0) > after && events.every((event) => event.object.key.startsWith(watcher.prefix));
    const selected = matchesAll
      ? events
      : events.filter((event) => event.revision > after && event.object.key.startsWith(watcher.prefix));
    if (selected.length === 0) return;
    try {
      watcher.listener(selected);
    } catch (error) {
      this.#onListenerError(error);
    }
  }
}

/** `<group>/<plural>/` of a key or prefix; `""` for a prefix that spans resources. */
function resourceOf(key: string): string {
  const first = key.indexOf("/");
  const second = first < 0 ? -1 : key.indexOf("/", first + 1);
  return second < 0 ? "" : key.slice(0, second + 1);
}
