import type { StoredObject } from "./store.ts";

/** The objects that were read or written last, so that readers share one parsed object: bounded by the bytes of their JSON. */
export interface ObjectCache {
  get(key: string): StoredObject | undefined;
  set(stored: StoredObject): void;
  delete(key: string): void;
}

/** Makes an {@link ObjectCache} that drops the least recently used. 0 holds nothing. */
export function createObjectCache(limitBytes: number): ObjectCache {
  // A Map keeps its keys in order of insertion: the first is the one that was not used for longest.
  const entries = new Map<string, StoredObject>();
  let bytes = 0;
  const remove = (key: string): void => {
    const entry = entries.get(key);
    if (entry === undefined) return;
    entries.delete(key);
    bytes -= entry.bytes.length;
  };
  return {
    get(key) {
      const entry = entries.get(key);
      if (entry !== undefined) {
        entries.delete(key);
        entries.set(key, entry);
      }
      return entry;
    },
    set(stored) {
      remove(stored.key);
      if (stored.bytes.length > limitBytes) return;
      entries.set(stored.key, stored);
      bytes += stored.bytes.length;
      for (const key of entries.keys()) {
        if (bytes <= limitBytes) break;
        remove(key);
      }
    },
    delete: remove,
  };
}
