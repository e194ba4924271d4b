/** Appends a round to ranges in ascending order: `1-3,7` and 8 become `1-3,7-8`. */
export function appendToRanges(ranges: string | undefined, round: number): string {
  if (ranges === undefined || ranges === "") return String(round);
  const start = ranges.lastIndexOf(",") + 1;
  const [first = "", last = first] = ranges.slice(start).split("-");
  return Number(last) === round - 1 ? `${ranges.slice(0, start)}${first}-${round}` : `${ranges},${round}`;
}

/** The rounds in ranges such as `1-3,7`. */
export function parseRanges(ranges: string | undefined): ReadonlySet<number> {
  const rounds = new Set<number>();
  for (const range of (ranges ?? "").split(",")) {
    const [first = "", last = first] = range.split("-");
    if (first !== "") for (let round = Number(first); round <= Number(last); round++) rounds.add(round);
  }
  return rounds;
}
