/*
 * Completed indexes in a Job's status: `1,3-5,7`.
 */

/** Parses completed indexes. Ignores malformed parts and indexes not below `completions`. */
export function parseIndexes(text: string | undefined, completions: number): ReadonlySet<number> {
  const indexes = new Set<number>();
  for (const part of (text ?? "").split(",")) {
    const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
    if (!match) continue;
    const last = Math.min(Number(match[2] ?? match[1]), completions - 1);
    for (let index = Number(match[1]); index <= last; index++) indexes.add(index);
  }
  return indexes;
}

/** Formats indexes in ascending order; a run of three or more becomes a range. */
export function formatIndexes(indexes: ReadonlySet<number>): string {
  const sorted = [...indexes].toSorted((a, b) => a - b);
  const parts: string[] = [];
  for (let at = 0; at < sorted.length; ) {
    const first = sorted[at] ?? 0;
    let last = first;
    while (sorted[at + 1] === last + 1) {
      last++;
      at++;
    }
    at++;
    parts.push(last === first ? String(first) : `${first}${last === first + 1 ? "," : "-"}${last}`);
  }
  return parts.join(",");
}
