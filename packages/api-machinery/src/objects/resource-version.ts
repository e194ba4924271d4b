const decimal = /^(?:0|[1-9]\d*)$/;

/**
 * Compares two resourceVersions: negative if `a` is older, 0 if they are equal, positive if `a` is newer. They are decimal
 * numbers of any size (KEP-5504) and are never converted to JavaScript numbers.
 *
 * **Errors**: a `RangeError` that names the value if one is not a decimal number.
 */
export function compareResourceVersions(a: string, b: string): number {
  for (const version of [a, b]) {
    if (!isResourceVersion(version)) throw new RangeError(`resourceVersion ${JSON.stringify(version)} is not a decimal number`);
  }
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Reports whether `value` is a decimal number without leading zeros, as every comparable resourceVersion is. */
export function isResourceVersion(value: string): boolean {
  return decimal.test(value);
}
