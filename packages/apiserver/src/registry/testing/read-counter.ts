/** The number of values that were read. */
export interface ReadCounter {
  reads: number;
}

/** A view of a value that counts the reads of its fields and items, at any depth. */
export function countReads<T extends object>(value: T, counter: ReadCounter): T;
export function countReads(value: object, counter: ReadCounter): object {
  const views = new WeakMap<object, object>();
  const viewOf = (target: object): object => {
    const found = views.get(target);
    if (found !== undefined) return found;
    const view = new Proxy(target, {
      get(owner, key): unknown {
        counter.reads++;
        const read: unknown = Reflect.get(owner, key);
        return typeof read === "object" && read !== null ? viewOf(read) : read;
      },
      has(owner, key) {
        counter.reads++;
        return Reflect.has(owner, key);
      },
      ownKeys(owner) {
        const keys = Reflect.ownKeys(owner);
        counter.reads += keys.length;
        return keys;
      },
    });
    views.set(target, view);
    return view;
  };
  return viewOf(value);
}
