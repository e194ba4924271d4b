/**
 * A number of Pods that is given as a number or as a share of all (`25%`), rounded as told. What is neither counts as 0: the
 * API server refuses it.
 */
export function resolveIntOrPercent(value: number | string | undefined, total: number, round: "up" | "down"): number {
  if (value === undefined) return 0;
  if (typeof value === "number") return value;
  const match = /^(\d{1,9})(%?)$/.exec(value);
  if (!match) return 0;
  const amount = Number(match[1]);
  if (match[2] === "") return amount;
  // Whole numbers throughout: 0.29 * 100 is not 29.
  return round === "up" ? Math.ceil((amount * total) / 100) : Math.floor((amount * total) / 100);
}
