import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { StoreEffect } from "@keelson/controller/informer";

/**
 * Applies an informer's effect to a map of reduced objects, by namespace and name. Objects that reduce to undefined are left out. An object
 * that is the same as before keeps its identity. Returns whether the map has changed.
 */
export function applyEffect<T extends KubernetesObject, V>(
  map: Map<string, V>,
  effect: StoreEffect,
  reduce: (object: DeepReadonly<T>) => V | undefined,
  isSame: (before: V, after: V) => boolean,
): boolean {
  const put = (object: DeepReadonly<KubernetesObject>): boolean => {
    const key = keyOf(object);
    // The informer of a type has objects of that type only.
    const after = reduce(object as DeepReadonly<T>);
    if (after === undefined) return map.delete(key);
    const before = map.get(key);
    if (before !== undefined && isSame(before, after)) return false;
    map.set(key, after);
    return true;
  };
  if (effect.kind === "put") return put(effect.object);
  if (effect.kind === "remove") return map.delete(keyOf(effect.object));
  const kept = new Set(effect.objects.map(keyOf));
  const gone = [...map.keys()].filter((key) => !kept.has(key));
  for (const key of gone) map.delete(key);
  return effect.objects.filter(put).length > 0 || gone.length > 0;
}

function keyOf({ metadata }: DeepReadonly<KubernetesObject>): string {
  return `${metadata.namespace ?? ""}/${metadata.name ?? ""}`;
}
