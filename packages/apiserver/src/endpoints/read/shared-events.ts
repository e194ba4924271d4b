import type { ServedResource } from "../../registry/served-resource.ts";
import type { StoreEvent } from "../../storage/store.ts";
import type { WatchedEvent } from "../outcome.ts";

/** Compared by identity. */
type Resource = Pick<ServedResource, "version">;

/** Watch events of changes, shared by the watches of a resource without selectors: the store hands all of them the same array. */
export class SharedEvents {
  readonly #known = new WeakMap<
    readonly StoreEvent[],
    { readonly resource: Resource; readonly events: readonly WatchedEvent[] }
  >();

  /** The events of `changes` to objects of `resource`. `encode` is called for the first watch only. */
  of(changes: readonly StoreEvent[], resource: Resource, encode: () => readonly WatchedEvent[]): readonly WatchedEvent[] {
    const known = this.#known.get(changes);
    if (known?.resource === resource) return known.events;
    const events = encode();
    this.#known.set(changes, { resource, events });
    return events;
  }
}
