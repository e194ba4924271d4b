import { type DeepReadonly, isExpired, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { Client, TypedWatch } from "@keelson/client";

/** The current objects of several kinds. */
export interface Collection {
  of<T extends KubernetesObject>(type: ResourceType<T>): readonly DeepReadonly<T>[];
}

/** Selects objects of one kind. */
export interface Selection {
  readonly type: ResourceType;
  readonly namespace: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/**
 * Lists and watches several kinds, calls `onChange` on every change, and resolves once `isDone` returns true. Rejects with the
 * signal's reason if it aborts first.
 */
export async function collect(
  client: Client,
  selections: readonly Selection[],
  signal: AbortSignal,
  onChange: (objects: Collection) => void,
  isDone: (objects: Collection) => boolean,
): Promise<Collection> {
  const done = new AbortController();
  const stores = new Map(selections.map((selection) => [selection.type, new Map<string, DeepReadonly<KubernetesObject>>()]));
  const collection: Collection = {
    of: <T extends KubernetesObject>(type: ResourceType<T>) =>
      [...(stores.get(type)?.values() ?? [])] as unknown as readonly DeepReadonly<T>[],
  };
  let unlisted = selections.length;
  const changed = (): void => {
    onChange(collection);
    if (unlisted === 0 && isDone(collection)) done.abort();
  };
  const follow = async (selection: Selection): Promise<void> => {
    const store = stores.get(selection.type) ?? new Map<string, DeepReadonly<KubernetesObject>>();
    const { type, ...options } = selection;
    let isFirst = true;
    while (!done.signal.aborted) {
      signal.throwIfAborted();
      const list = await client.list(type, { ...options, signal });
      store.clear();
      for (const object of list.items) store.set(object.metadata.uid ?? "", object);
      if (isFirst) unlisted--;
      isFirst = false;
      changed();
      // Otherwise a watch would be opened that is aborted before it starts.
      if (done.signal.aborted) return;
      await followWatch(
        await client.watch(type, {
          ...options,
          resourceVersion: list.metadata.resourceVersion ?? "0",
          signal: AbortSignal.any([signal, done.signal]),
        }),
        store,
        changed,
      );
    }
  };
  await Promise.all(selections.map(follow));
  signal.throwIfAborted();
  return collection;
}

async function followWatch(
  watch: TypedWatch<KubernetesObject>,
  store: Map<string, DeepReadonly<KubernetesObject>>,
  changed: () => void,
): Promise<void> {
  try {
    for await (const event of watch) {
      const uid = event.object.metadata?.uid ?? "";
      if (event.type === "ERROR") return;
      if (event.type === "BOOKMARK") continue;
      if (event.type === "DELETED") store.delete(uid);
      else store.set(uid, event.object);
      changed();
    }
  } catch (error) {
    if (!isExpired(error)) throw error;
  } finally {
    watch.close();
  }
}
