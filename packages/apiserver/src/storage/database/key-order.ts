/** Compares keys in database order: by code point, which is the order of their UTF-8 bytes. `<` compares UTF-16 units. */
export function compareKeys(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const difference = rank(a.charCodeAt(index)) - rank(b.charCodeAt(index));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Ranks surrogates, which encode characters beyond U+FFFF, after all other units. */
function rank(unit: number): number {
  return unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** The first key after `key`. */
export function keyAfter(key: string): string {
  return `${key}\u0000`;
}

/** The first key after all keys that begin with `prefix`; undefined for the empty prefix. */
export function endOfPrefix(prefix: string): string | undefined {
  if (prefix === "") return undefined;
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
}

/** Whether `key` is in the range from `start` (inclusive) to `end` (exclusive). */
export function isKeyWithin(key: string, start: string, end: string | undefined): boolean {
  return compareKeys(key, start) >= 0 && (end === undefined || compareKeys(key, end) < 0);
}
