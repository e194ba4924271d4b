import { DeletedObject } from "../../storage/objects/stored-object.ts";
import type { StoredObject, StoreEvent } from "../../storage/store.ts";

/** A change of one object. */
export interface Change {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly stored: StoredObject;
}

/** The change that an object of the initial state is sent as. */
export function addedChange(stored: StoredObject): Change {
  return { type: "ADDED", stored };
}

/** The changes that affect a watch whose selection `matches`. */
export function changesOf(events: readonly StoreEvent[], matches: (stored: StoredObject) => boolean): Change[] {
  const changes: Change[] = [];
  for (const event of events) {
    const change = changeOf(event, matches);
    if (change !== undefined) changes.push(change);
  }
  return changes;
}

/** The watch event for a watcher with this selection; undefined if the change does not affect it. */
function changeOf(event: StoreEvent, matches: (stored: StoredObject) => boolean): Change | undefined {
  const { previous, object } = event;
  const wasIn = previous !== undefined && matches(previous);
  if (event.type === "delete") return wasIn ? { type: "DELETED", stored: object } : undefined;
  const isIn = matches(object);
  if (isIn) return { type: wasIn ? "MODIFIED" : "ADDED", stored: object };
  if (!wasIn || previous === undefined) return undefined;
  // The object left the selection: send its last selected state with the revision of the change.
  return { type: "DELETED", stored: new DeletedObject(previous, event.revision) };
}
