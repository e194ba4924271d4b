import { type DeepReadonly, hasFinalizer, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { Client, JsonPatchOperation } from "@keelson/client";
import { objectKey } from "../cache/object-id.ts";

/**
 * Adds a finalizer; call it before the first side effect that must be undone. Returns whether it was added. The finalizer is stored by then, so
 * the reconcile may continue. A reconcile that returns instead and waits for the update needs a predicate that passes it:
 * `generationChanged` does not, because a change of metadata does not raise the generation.
 *
 * The patch applies only if the finalizers are still those of `object`, so a concurrent change by another controller is
 * never lost.
 *
 * **Errors**: `Invalid` if the finalizers have changed; a retry sees the new ones.
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
          // JSON Patch cannot test for absence, so test the version.
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
 * Removes every occurrence of a finalizer. Returns whether there was one. Call it only after the cleanup has succeeded.
 *
 * **Errors**: `Invalid` if the finalizers have changed; a retry sees the new ones.
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
