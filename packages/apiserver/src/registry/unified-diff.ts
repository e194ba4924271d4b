/** Lines around a change. */
const context = 3;

/** Lines and characters of a text beyond which no difference is computed. Messages repeat it, and the event loop waits for it. */
const [maxLines, maxLength] = [1_500, 65_536];

/** Pairs of equal lines that are considered. A comparison is quadratic in the worst case. */
const maxPairs = 50_000;

/**
 * The difference of two values as kube-apiserver appends it to messages: a unified diff of their indented JSON, with the matches of Python's
 * difflib. Empty for equal values, and for values that are too large or repetitive to be compared in one turn.
 */
export function valueDifference(before: unknown, after: unknown): string {
  const [a, b] = [linesOf(before), linesOf(after)];
  if (a === undefined || b === undefined) return "";
  const matches = matchesOf(a, b);
  if (matches === undefined) return "";
  return groupsOf(changesOf(matches))
    .map((group) => hunk(group, a, b))
    .join("");
}

/** Undefined for a text beyond the limits. */
function linesOf(value: unknown): string[] | undefined {
  const text = JSON.stringify(value, null, 1);
  if (text.length > maxLength) return undefined;
  const lines = text
    .replaceAll(/[<>&\u2028\u2029]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .split("\n");
  return lines.length > maxLines ? undefined : lines;
}

interface Match {
  readonly a: number;
  readonly b: number;
  readonly size: number;
}

/** Lines `[a, aEnd)` become lines `[b, bEnd)`. */
interface Change {
  readonly isEqual: boolean;
  readonly a: number;
  readonly aEnd: number;
  readonly b: number;
  readonly bEnd: number;
}

/** The indexes of each line of `b`. In long texts, lines that occur often do not start a match. */
function indexLines(b: readonly string[]): ReadonlyMap<string, readonly number[]> {
  const indexes = new Map<string, number[]>();
  for (const [index, line] of b.entries()) {
    const found = indexes.get(line);
    if (found === undefined) indexes.set(line, [index]);
    else found.push(index);
  }
  if (b.length < 200) return indexes;
  const popular = Math.floor(b.length / 100) + 1;
  for (const [line, found] of indexes) if (found.length > popular) indexes.delete(line);
  return indexes;
}

type Range = readonly [aStart: number, aEnd: number, bStart: number, bEnd: number];

function bestMatch(
  a: readonly string[],
  b: readonly string[],
  indexes: ReadonlyMap<string, readonly number[]>,
  [aStart, aEnd, bStart, bEnd]: Range,
): Match & { readonly pairs: number } {
  let pairs = 0;
  let best: Match = { a: aStart, b: bStart, size: 0 };
  let lengths = new Map<number, number>();
  for (let i = aStart; i < aEnd; i++) {
    const next = new Map<number, number>();
    for (const j of indexes.get(a[i] ?? "") ?? []) {
      if (j < bStart) continue;
      if (j >= bEnd) break;
      pairs++;
      const size = (lengths.get(j - 1) ?? 0) + 1;
      next.set(j, size);
      if (size > best.size) best = { a: i - size + 1, b: j - size + 1, size };
    }
    lengths = next;
  }
  let { a: i, b: j, size } = best;
  while (i > aStart && j > bStart && a[i - 1] === b[j - 1]) [i, j, size] = [i - 1, j - 1, size + 1];
  while (i + size < aEnd && j + size < bEnd && a[i + size] === b[j + size]) size++;
  return { a: i, b: j, size, pairs };
}

/** The matches in order, adjacent ones joined, with an empty one at the end. Undefined if there are too many pairs of equal lines. */
function matchesOf(a: readonly string[], b: readonly string[]): readonly Match[] | undefined {
  const indexes = indexLines(b);
  const found: Match[] = [];
  const pending: Range[] = [[0, a.length, 0, b.length]];
  let pairs = 0;
  for (let range = pending.pop(); range !== undefined; range = pending.pop()) {
    const match = bestMatch(a, b, indexes, range);
    pairs += match.pairs;
    if (pairs > maxPairs) return undefined;
    if (match.size === 0) continue;
    found.push(match);
    const [aStart, aEnd, bStart, bEnd] = range;
    if (aStart < match.a && bStart < match.b) pending.push([aStart, match.a, bStart, match.b]);
    const [i, j] = [match.a + match.size, match.b + match.size];
    if (i < aEnd && j < bEnd) pending.push([i, aEnd, j, bEnd]);
  }
  found.sort((one, other) => one.a - other.a);
  const joined: Match[] = [];
  for (const match of found) {
    const last = joined.at(-1);
    if (last !== undefined && last.a + last.size === match.a && last.b + last.size === match.b) {
      joined[joined.length - 1] = { ...last, size: last.size + match.size };
    } else joined.push(match);
  }
  return [...joined, { a: a.length, b: b.length, size: 0 }];
}

function changesOf(matches: readonly Match[]): readonly Change[] {
  const changes: Change[] = [];
  let [i, j] = [0, 0];
  for (const match of matches) {
    if (i < match.a || j < match.b) changes.push({ isEqual: false, a: i, aEnd: match.a, b: j, bEnd: match.b });
    [i, j] = [match.a + match.size, match.b + match.size];
    if (match.size > 0) changes.push({ isEqual: true, a: match.a, aEnd: i, b: match.b, bEnd: j });
  }
  return changes;
}

/** Groups changes whose context overlaps. */
function groupsOf(changes: readonly Change[]): readonly (readonly Change[])[] {
  const groups: Change[][] = [];
  let group: Change[] = [];
  for (const [index, change] of changes.entries()) {
    if (!change.isEqual) {
      group.push(change);
      continue;
    }
    const head = {
      ...change,
      aEnd: Math.min(change.aEnd, change.a + context),
      bEnd: Math.min(change.bEnd, change.b + context),
    };
    const tail = { ...change, a: Math.max(change.a, change.aEnd - context), b: Math.max(change.b, change.bEnd - context) };
    const isLast = index === changes.length - 1;
    if (index === 0) group.push(tail);
    else if (isLast) group.push(head);
    else if (change.aEnd - change.a > context * 2) {
      groups.push([...group, head]);
      group = [tail];
    } else group.push(change);
  }
  if (group.some(({ isEqual }) => !isEqual)) groups.push(group);
  return groups;
}

function hunk(group: readonly Change[], a: readonly string[], b: readonly string[]): string {
  const [first, last] = [group[0], group.at(-1)];
  if (first === undefined || last === undefined) return "";
  const lines = group.flatMap((change) => {
    if (change.isEqual) return a.slice(change.a, change.aEnd).map((line) => ` ${line}`);
    const removed = a.slice(change.a, change.aEnd).map((line) => `-${line}`);
    return [...removed, ...b.slice(change.b, change.bEnd).map((line) => `+${line}`)];
  });
  return [`@@ -${range(first.a, last.aEnd)} +${range(first.b, last.bEnd)} @@`, ...lines, ""].join("\n");
}

/** The first line and the number of lines. */
function range(start: number, end: number): string {
  const length = end - start;
  if (length === 1) return `${start + 1}`;
  return `${length === 0 ? start : start + 1},${length}`;
}
