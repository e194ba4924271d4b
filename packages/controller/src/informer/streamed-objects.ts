import type { CachedObject } from "../cache/cached-object.ts";
import { idOfObject } from "../cache/object-id.ts";

/**
 * The events of an initial stream so far, newest first. A linked list, so that a step of the informer's state machine
 * takes constant time and does not modify earlier states.
 */
export interface StreamedObjects {
  readonly object: CachedObject;
  /** Whether it was deleted while the stream ran. */
  readonly isDeleted: boolean;
  readonly before: StreamedObjects | undefined;
}

/** The last state of each existing object, in the order of those states. */
export function collectObjects(streamed: StreamedObjects | undefined): readonly CachedObject[] {
  const objects = new Map<string, CachedObject | undefined>();
  for (let each = streamed; each !== undefined; each = each.before) {
    const id = idOfObject(each.object);
    if (!objects.has(id)) objects.set(id, each.isDeleted ? undefined : each.object);
  }
  return [...objects.values()].filter((object) => object !== undefined).reverse();
}
