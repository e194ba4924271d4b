import type { Store, StoredObject, StoreWatch } from "../storage/store.ts";

const none: readonly StoredObject[] = [];

/**
 * The objects of one kind by namespace, which admission looks up with every write. Follows the store's events, which arrive before the
 * writer gets its answer: an object that a client has created applies to the client's next request.
 */
export class NamespacedObjects {
  readonly #byNamespace = new Map<string, readonly StoredObject[]>();
  readonly #watch: StoreWatch;

  constructor(store: Pick<Store, "list" | "watch">, kind: { readonly group: string; readonly plural: string }) {
    const prefix = `${kind.group}/${kind.plural}/`;
    const { items, revision } = store.list(prefix);
    for (const stored of items) this.#put(stored);
    this.#watch = store.watch(prefix, revision, (events) => {
      for (const { type, object } of events) {
        if (type === "put") this.#put(object);
        else this.#delete(object.key);
      }
    });
  }

  /** The objects in a namespace, by name. */
  in(namespace: string): readonly StoredObject[] {
    return this.#byNamespace.get(namespace) ?? none;
  }

  close(): void {
    this.#watch.close();
  }

  #put(stored: StoredObject): void {
    const namespace = namespaceOf(stored.key);
    const others = this.in(namespace).filter(({ key }) => key !== stored.key);
    this.#byNamespace.set(
      namespace,
      [...others, stored].sort((a, b) => (a.key < b.key ? -1 : 1)),
    );
  }

  #delete(key: string): void {
    const namespace = namespaceOf(key);
    const others = this.in(namespace).filter((stored) => stored.key !== key);
    if (others.length === 0) this.#byNamespace.delete(namespace);
    else this.#byNamespace.set(namespace, others);
  }
}

/** The namespace of a storage key. */
function namespaceOf(key: string): string {
  return key.split("/")[2] ?? "";
}
