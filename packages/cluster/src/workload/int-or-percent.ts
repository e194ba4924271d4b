/**
 * Resolves a number of Pods given as a number or as a percentage of `total` (`25%`), rounded in direction `round`. Anything else
 * counts as 0; API validation rejects it.
 */
export function resolveIntOrPercent(value: number | string | undefined, total: number, round: "up" | "down"): number {
  if (value === undefined) return 0;
  if (typeof value === "number") return value;
  const match = /^(\d{1,9})(%?)$/.exec(value);
  if (!match) return 0;
  const amount = Number(match[1]);
  if (match[2] === "") return amount;
  // Multiply first: 0.29 * 100 is not 29.
  return round === "up" ? Math.ceil((amount * total) / 100) : Math.floor((amount * total) / 100);
}
