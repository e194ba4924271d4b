import type { DeepReadonly, KubernetesObject, ObjectKey } from "@keelson/api-machinery";
import type { CacheWait } from "./cache-wait.ts";
import type { CachedKind } from "./cached-kind.ts";

/** Waits until a kind has this version of an object or a later one; `undefined` if it has, or never will. */
export function versionBarrier(kind: CachedKind, object: DeepReadonly<KubernetesObject>): CacheWait | undefined {
  const { resourceVersion, namespace } = object.metadata;
  // An object that is not selected is never delivered, so there is nothing to wait for.
  if (resourceVersion === undefined || !kind.isDelivered(object)) return undefined;
  const informer = kind.informerOf(namespace);
  if (informer?.hasSeen(resourceVersion) !== false) return undefined;
  return (reached) => informer.whenSeen(resourceVersion, reached);
}

/** Waits until the object of this uid is deleted or being deleted; `undefined` if it is. */
export function deletionBarrier(kind: CachedKind, key: ObjectKey, uid: string): CacheWait | undefined {
  const isDeleted = (): boolean => {
    const object = kind.get(key);
    return object === undefined || object.metadata.uid !== uid || object.metadata.deletionTimestamp !== undefined;
  };
  if (isDeleted()) return undefined;
  return (reached) => {
    const remove = kind.addListenerOf(key, () => {
      if (!isDeleted()) return;
      remove();
      reached();
    });
    return remove;
  };
}
