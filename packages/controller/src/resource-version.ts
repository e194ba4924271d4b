/**
 * Compares resource versions as the decimal numbers that they are (KEP-5504), of any length: negative when `a` is older.
 * `undefined` when one of them is not such a number, and nothing can be said.
 */
export function compareVersions(a: string, b: string): number | undefined {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return undefined;
  const left = a.replace(/^0+(?=\d)/, "");
  const right = b.replace(/^0+(?=\d)/, "");
  if (left.length !== right.length) return left.length - right.length;
  return left < right ? -1 : left > right ? 1 : 0;
}
