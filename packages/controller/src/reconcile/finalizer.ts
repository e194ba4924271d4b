import { type DeepReadonly, hasFinalizer, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { Client, JsonPatchOperation } from "@keelson/client";
import { objectKey } from "../cache/object-id.ts";

/**
 * Adds a finalizer, before the first effect that has to be undone. Answers whether it was added. It is stored then, and the reconcile may
 * go on. One that ends instead, and waits for the change to come back, must not have a predicate that holds it back, as
 * `generationChanged` does: metadata has no generation.
 *
 * The patch holds only if the list is still what `object` has, so a finalizer that somebody else writes at the same time is
 * never lost.
 *
 * **Errors**: `Invalid` when the list has changed meanwhile; the retry sees it.
 */
export async function addFinalizer<T extends KubernetesObject>(
  client: Client,
  type: ResourceType<T>,
  object: DeepReadonly<KubernetesObject>,
  finalizer: string,
): Promise<boolean> {
  if (hasFinalizer(object, finalizer) || object.metadata.deletionTimestamp !== undefined) return false;
  const current = object.metadata.finalizers ?? [];
  const operations: JsonPatchOperation[] =
    current.length === 0
      ? [
          // Nothing says "test that it is absent": the version stands in for it.
          { op: "test", path: "/metadata/resourceVersion", value: object.metadata.resourceVersion },
          { op: "add", path: "/metadata/finalizers", value: [finalizer] },
        ]
      : [
          { op: "test", path: "/metadata/finalizers", value: current },
          { op: "add", path: "/metadata/finalizers/-", value: finalizer },
        ];
  await client.patch(type, objectKey(object), { type: "json", operations });
  return true;
}

/**
 * Takes a finalizer away, wherever it is in the list and however often. Answers whether there was one. Only after the cleanup
 * has succeeded.
 *
 * **Errors**: `Invalid` when the list has changed meanwhile; the retry sees it.
 */
export async function removeFinalizer<T extends KubernetesObject>(
  client: Client,
  type: ResourceType<T>,
  object: DeepReadonly<KubernetesObject>,
  finalizer: string,
): Promise<boolean> {
  if (!hasFinalizer(object, finalizer)) return false;
  const current = object.metadata.finalizers ?? [];
  const rest = current.filter((each) => each !== finalizer);
  await client.patch(type, objectKey(object), {
    type: "json",
    operations: [
      { op: "test", path: "/metadata/finalizers", value: current },
      { op: "replace", path: "/metadata/finalizers", value: rest },
    ],
  });
  return true;
}
