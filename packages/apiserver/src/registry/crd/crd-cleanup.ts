import { draft } from "@keelson/api-machinery";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { formatTime } from "@keelson/api-machinery/time";
import type { Store, StoredObject } from "../../storage/store.ts";

/** Objects per round of deletions. */
const roundSize = 500;

/**
 * Deletes every object under `prefix` (with a trailing slash) and resolves when none is left. Objects with finalizers get a
 * deletionTimestamp and are awaited. Objects that are created in the meantime are deleted too.
 * `now` is in milliseconds since the epoch. Rejects with the signal's reason if it is aborted.
 */
export async function deleteAll(
  store: Pick<Store, "revision" | "list" | "watch" | "write">,
  prefix: string,
  options: { readonly now: () => number; readonly signal: AbortSignal },
): Promise<void> {
  const { now, signal } = options;
  for (;;) {
    const { revision } = store;
    let found = 0;
    let isChanged = false;
    let startAfter: string | undefined;
    do {
      signal.throwIfAborted();
      const page = store.list(prefix, { limit: roundSize, ...(startAfter === undefined ? {} : { startAfter }) });
      const written = await Promise.all(page.items.map((item) => deleteOne(store, item, now)));
      found += page.items.length;
      isChanged ||= written.includes(true);
      startAfter = page.next;
    } while (startAfter !== undefined);
    if (found === 0) return;
    // The remaining objects wait for their finalizers.
    if (!isChanged) await nextChange(store, prefix, revision, signal);
  }
}

/** Returns whether there was something to write. A conflicting write is retried in the next round. */
async function deleteOne(store: Pick<Store, "write">, stored: StoredObject, now: () => number): Promise<boolean> {
  const { metadata } = stored.object;
  if (!metadata.finalizers?.length) {
    await store.write(stored.key, stored.revision, undefined);
    return true;
  }
  if (metadata.deletionTimestamp !== undefined) return false;
  const object = draft(stored.object);
  object.metadata.deletionTimestamp = formatTime(now());
  object.metadata.deletionGracePeriodSeconds = 0;
  await store.write(stored.key, stored.revision, object);
  return true;
}

/** Resolves at the first change under `prefix` after `revision`. */
function nextChange(store: Pick<Store, "watch">, prefix: string, revision: number, signal: AbortSignal): Promise<void> {
  const changed = createDeferred<void>();
  const onAbort = (): void => changed.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const watch = store.watch(prefix, revision, () => changed.resolve());
  return changed.promise.finally(() => {
    watch.close();
    signal.removeEventListener("abort", onAbort);
  });
}
