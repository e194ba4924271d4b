import type { StoredObject } from "./store.ts";

/** The objects that were read or written last, so that readers share one parsed object: bounded by the bytes of their JSON. */
export interface ObjectCache {
  get(key: string): StoredObject | undefined;
  set(stored: StoredObject): void;
  delete(key: string): void;
}

/**
 * Makes an {@link ObjectCache} of two generations: what is used goes to the young one; when that is half of the limit it becomes
 * the old one, and the old one is dropped whole. So what was not used for two turns goes, and nothing is ever moved about in a long
 * Map, which is what makes exact least-recently-used order slow. 0 holds nothing.
 */
export function createObjectCache(limitBytes: number): ObjectCache {
  let young = new Map<string, StoredObject>();
  let old = new Map<string, StoredObject>();
  let youngBytes = 0;
  const set = (stored: StoredObject): void => {
    const bytes = stored.bytes.length;
    const before = young.get(stored.key);
    if (before !== undefined) youngBytes -= before.bytes.length;
    if (bytes > limitBytes / 2) {
      young.delete(stored.key);
      old.delete(stored.key);
      return;
    }
    if (youngBytes + bytes > limitBytes / 2) {
      old = young;
      young = new Map();
      youngBytes = 0;
    }
    young.set(stored.key, stored);
    youngBytes += bytes;
  };
  return {
    get(key) {
      const recent = young.get(key);
      if (recent !== undefined) return recent;
      const former = old.get(key);
      if (former !== undefined) set(former);
      return former;
    },
    set,
    delete(key) {
      const recent = young.get(key);
      if (recent !== undefined) youngBytes -= recent.bytes.length;
      young.delete(key);
      old.delete(key);
    },
  };
}
