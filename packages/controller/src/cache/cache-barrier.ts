import type { DeepReadonly, KubernetesObject, ObjectKey } from "@keelson/api-machinery";
import type { CacheWait } from "./cache-wait.ts";
import type { CachedKind } from "./cached-kind.ts";

/** Waits until a kind shows this version of an object or a later one; `undefined` where it does, or never will. */
export function versionBarrier(kind: CachedKind, object: DeepReadonly<KubernetesObject>): CacheWait | undefined {
  const { resourceVersion, namespace } = object.metadata;
  // Of what is not selected the cache never tells: there is nothing to wait for.
  if (resourceVersion === undefined || !kind.isTold(object)) return undefined;
  const informer = kind.informerOf(namespace);
  if (informer?.hasSeen(resourceVersion) !== false) return undefined;
  return (met) => informer.whenSeen(resourceVersion, met);
}

/** Waits until a kind shows that the object of this uid is deleted, or is being; `undefined` where it does. */
export function deletionBarrier(kind: CachedKind, key: ObjectKey, uid: string): CacheWait | undefined {
  const isShown = (): boolean => {
    const object = kind.get(key);
    return object === undefined || object.metadata.uid !== uid || object.metadata.deletionTimestamp !== undefined;
  };
  if (isShown()) return undefined;
  return (met) => {
    const remove = kind.addListenerOf(key, () => {
      if (!isShown()) return;
      remove();
      met();
    });
    return remove;
  };
}
