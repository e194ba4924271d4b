import { isExpired, type KubernetesObject, type ResourceType, type Stored } from "@keelson/api-machinery";
import type { Client, ListOptions } from "@keelson/client";

/** Objects by `namespace/name`. */
export type Observed<T extends KubernetesObject> = ReadonlyMap<string, Stored<T>>;

/**
 * Watches a selection of objects until `isDone` returns true for all that match, and resolves to them. A watch that the server ends is
 * reopened.
 *
 * **Errors**: the reason of `signal`; a `StatusError` if the selection cannot be read.
 */
export async function waitUntil<T extends KubernetesObject>(
  client: Client,
  type: ResourceType<T>,
  selection: Pick<ListOptions, "namespace" | "labelSelector" | "fieldSelector" | "metadataOnly">,
  isDone: (objects: Observed<T>) => boolean,
  signal: AbortSignal,
): Promise<Observed<T>> {
  for (;;) {
    signal.throwIfAborted();
    const list = await client.list(type, { ...selection, signal });
    const objects = new Map(list.items.map((object) => [keyOf(object), object]));
    if (isDone(objects)) return objects;
    const watch = await client.watch(type, { ...selection, resourceVersion: list.metadata.resourceVersion ?? "0", signal });
    try {
      for await (const event of watch) {
        if (event.type === "BOOKMARK") continue;
        if (event.type === "ERROR") break;
        if (event.type === "DELETED") objects.delete(keyOf(event.object));
        else objects.set(keyOf(event.object), event.object as Stored<T>);
        if (isDone(objects)) return objects;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!isExpired(error)) throw error;
    } finally {
      watch.close();
    }
  }
}

const keyOf = ({
  metadata,
}:
  | Pick<KubernetesObject, "metadata">
  | { readonly metadata: { readonly namespace?: string; readonly name?: string } }): string =>
  `${metadata.namespace ?? ""}/${metadata.name ?? ""}`;
