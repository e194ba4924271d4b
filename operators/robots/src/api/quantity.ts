const factors: Readonly<Record<string, number>> = {
  "": 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** The amount that a Kubernetes quantity means, as a number (good to 15 digits), or undefined where it is none. */
export function parseQuantity(value: string | number): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined;
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE])?)$/.exec(value);
  if (!match) return undefined;
  const amount = Number(`${match[1]}${match[2] ?? ""}`) * (factors[match[3] ?? ""] ?? Number.NaN);
  return Number.isFinite(amount) ? amount : undefined;
}
