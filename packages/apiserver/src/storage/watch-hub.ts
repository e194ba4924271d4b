import type { StoreEvent } from "./store.ts";

type Listener = (events: readonly StoreEvent[]) => void;

interface Watcher {
  readonly prefix: string;
  readonly listener: Listener;
  /** The newest revision that it has seen or asked to start after. */
  seen: number;
}

/** Hands committed events to those who watch, each list of them made once for all watchers of a resource. */
export interface WatchHub {
  add(prefix: string, after: number, listener: Listener): { close(): void };
  publish(events: readonly StoreEvent[]): void;
}

/** Makes a {@link WatchHub}. Watchers are kept by resource: one of `pods` costs nothing when leases change. */
export function createWatchHub(onListenerError: (error: unknown) => void): WatchHub {
  const byResource = new Map<string, Set<Watcher>>();
  const call = (watcher: Watcher, events: readonly StoreEvent[], revision: number): void => {
    const after = watcher.seen;
    if (after >= revision) return;
    watcher.seen = revision;
    const isWhole = (events[0]?.revision ?? 0) > after && events.every((event) => event.object.key.startsWith(watcher.prefix));
    const selected = isWhole
      ? events
      : events.filter((event) => event.revision > after && event.object.key.startsWith(watcher.prefix));
    if (selected.length === 0) return;
    try {
      watcher.listener(selected);
    } catch (error) {
      onListenerError(error);
    }
  };
  return {
    add(prefix, after, listener) {
      const resource = resourceOf(prefix);
      const watcher: Watcher = { prefix, listener, seen: after };
      const watchers = byResource.get(resource) ?? new Set();
      byResource.set(resource, watchers.add(watcher));
      return {
        close() {
          watchers.delete(watcher);
          if (watchers.size === 0 && byResource.get(resource) === watchers) byResource.delete(resource);
        },
      };
    },
    publish(events) {
      const revision = events.at(-1)?.revision ?? 0;
      const groups = new Map<string, StoreEvent[]>();
      for (const event of events) {
        const resource = resourceOf(event.object.key);
        if (!byResource.has(resource)) continue;
        const group = groups.get(resource);
        if (group) group.push(event);
        else groups.set(resource, [event]);
      }
      if (byResource.has("")) groups.set("", [...events]);
      for (const [resource, group] of groups) {
        // A copy: a listener may open or close watches.
        for (const watcher of Array.from(byResource.get(resource) ?? [])) {
          if (byResource.get(resource)?.has(watcher)) call(watcher, group, revision);
        }
      }
    },
  };
}

/** `<group>/<plural>/` of a key or prefix; `""` for a prefix that spans resources. */
function resourceOf(key: string): string {
  const first = key.indexOf("/");
  const second = first < 0 ? -1 : key.indexOf("/", first + 1);
  return second < 0 ? "" : key.slice(0, second + 1);
}
