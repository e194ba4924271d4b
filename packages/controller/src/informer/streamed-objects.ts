import type { CachedObject } from "../cache/cached-object.ts";
import { idOfObject } from "../cache/object-id.ts";

/**
 * What a stream has brought so far, the newest first: a list that grows at its head, so that a step of the informer's state
 * costs the same whatever came before it and no state is changed by a later one.
 */
export interface StreamedObjects {
  readonly object: CachedObject;
  /** It was deleted while the stream ran. */
  readonly isGone: boolean;
  readonly before: StreamedObjects | undefined;
}

/** The last state of each object that is there, in the order in which their last states came. */
export function gatheredObjects(streamed: StreamedObjects | undefined): readonly CachedObject[] {
  const objects = new Map<string, CachedObject | undefined>();
  for (let each = streamed; each !== undefined; each = each.before) {
    const id = idOfObject(each.object);
    if (!objects.has(id)) objects.set(id, each.isGone ? undefined : each.object);
  }
  return [...objects.values()].filter((object) => object !== undefined).reverse();
}
