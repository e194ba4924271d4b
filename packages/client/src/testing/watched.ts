import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Client } from "../client/client.ts";

/** Waits until `isReached` returns true for an object, and returns it. A deleted object is passed as `undefined`. */
export async function watched<T extends KubernetesObject>(
  client: Client,
  type: ResourceType<T>,
  name: string,
  isReached: (object: DeepReadonly<T> | undefined) => boolean,
  namespace = "default",
): Promise<DeepReadonly<T> | undefined> {
  const list = await client.list(type, { namespace });
  const present = list.items.find((object) => object.metadata.name === name);
  if (isReached(present)) return present;
  const watch = await client.watch(type, { namespace, resourceVersion: list.metadata.resourceVersion ?? "" });
  try {
    for await (const event of watch) {
      if (event.type === "BOOKMARK" || event.object.metadata.name !== name) continue;
      const object = event.type === "DELETED" ? undefined : event.object;
      if (isReached(object)) return object;
    }
  } finally {
    watch.close();
  }
  throw new Error(`the watch of ${type.plural} ended before ${name} reached the expected state`);
}
