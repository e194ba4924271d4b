import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";

/**
 * Watches an object until `read` returns a value. Resolves to undefined if the object was deleted. A watch that the server ends is opened
 * again.
 */
export async function awaitObject<T extends KubernetesObject, R>(
  client: Client,
  type: ResourceType<T>,
  { namespace, name }: { readonly namespace: string | undefined; readonly name: string },
  read: (object: DeepReadonly<T>) => R | undefined,
  signal: AbortSignal,
): Promise<R | undefined> {
  const fieldSelector = `metadata.name=${name}`;
  for (;;) {
    signal.throwIfAborted();
    const { items, metadata } = await client.list(type, { namespace, fieldSelector, signal });
    const [found] = items;
    if (found === undefined) return undefined;
    const known = read(found);
    if (known !== undefined) return known;
    const resourceVersion = metadata.resourceVersion ?? "";
    const watch = await client.watch(type, { namespace, fieldSelector, resourceVersion, signal });
    try {
      for await (const event of watch) {
        if (event.type === "BOOKMARK") continue;
        if (event.type === "DELETED") return undefined;
        const value = read(event.object);
        if (value !== undefined) return value;
      }
    } finally {
      watch.close();
    }
  }
}
