const units: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Milliseconds of a span of time as Go writes it (`time.ParseDuration`), or undefined where the text is none or is negative. */
export function parseDurationMs(text: string): number | undefined {
  const body = text.startsWith("+") ? text.slice(1) : text;
  if (body === "0") return 0;
  if (!/^((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$/.test(body)) return undefined;
  let total = 0;
  for (const [, value, unit] of body.matchAll(/(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)) {
    total += Number(value) * (units[unit ?? ""] ?? Number.NaN);
  }
  return Number.isFinite(total) ? total : undefined;
}
