/** `; did you mean PodReady?` if a name is similar to one of `names`, otherwise `""`. */
export function suggestion(name: string, names: readonly string[]): string {
  const closest = closestName(name, names);
  return closest === undefined ? "" : `; did you mean ${closest}?`;
}

/** The most similar name: equal except for case, or within a small edit distance, or with the same beginning. */
function closestName(name: string, names: readonly string[]): string | undefined {
  const lower = name.toLowerCase();
  const maxDistance = Math.max(1, Math.floor(lower.length / 4));
  let closest: { readonly name: string; readonly distance: number } | undefined;
  for (const each of names) {
    const distance = editDistance(lower, each.toLowerCase());
    if (distance <= maxDistance && (closest === undefined || distance < closest.distance)) closest = { name: each, distance };
  }
  return closest?.name ?? (lower === "" ? undefined : names.find((each) => each.toLowerCase().startsWith(lower)));
}

/** Edit distance in which two swapped neighbours count as one edit, as in `lables`. */
function editDistance(a: string, b: string): number {
  let beforePrevious: readonly number[] = [];
  let previous: readonly number[] = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const substitution = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const isSwap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const swap = isSwap ? (beforePrevious[column - 2] ?? 0) + 1 : substitution;
      current.push(Math.min(substitution, swap, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[b.length] ?? 0;
}
