import type { Selector } from "@keelson/api-machinery/selectors";

/** Compiles selectors of objects from a cache, which are frozen, once: each event of a Pod asks the selectors of its whole namespace. */
export function compiledOnce<T extends object>(compile: (selector: T) => Selector): (selector: T) => Selector {
  const compiled = new WeakMap<T, Selector>();
  return (selector) => {
    const known = compiled.get(selector);
    if (known !== undefined) return known;
    const result = compile(selector);
    if (Object.isFrozen(selector)) compiled.set(selector, result);
    return result;
  };
}
