const unitNanos: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  µs: 1_000n,
  μs: 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};

const shape = /^[+-]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/;

/** The range of Go's time.Duration, about 292 years. */
const maxNanos = 2n ** 63n;

/** Reports whether `text` is a duration that Go's `time.ParseDuration` accepts: `300ms`, `-1.5h`, `2h45m`, `0`. */
export function isDuration(text: string): boolean {
  return text.length <= 64 && shape.test(text) && magnitude(text) < maxNanos;
}

/**
 * Parses a Go duration (meta/v1 Duration) to milliseconds: `parseDuration("1m30s")` is 90000. Keeps fractions of a
 * millisecond.
 *
 * **Errors**: a `RangeError` that names the value if it is not a duration.
 */
export function parseDuration(text: string): number {
  if (!isDuration(text)) {
    throw new RangeError(
      `invalid duration ${JSON.stringify(text)}: must be numbers with units h, m, s, ms, us or ns, such as "1m30s"`,
    );
  }
  const nanos = magnitude(text);
  const durationMs = Number(nanos / 1_000_000n) + Number(nanos % 1_000_000n) / 1e6;
  return text.startsWith("-") && durationMs !== 0 ? -durationMs : durationMs;
}

/**
 * Formats a duration as Go does: `formatDuration(90_000)` is `1m30s`; less than a second is `250ms`; 0 is `0s`.
 *
 * **Errors**: a `RangeError` if `durationMs` is not finite or exceeds Go's range.
 */
export function formatDuration(durationMs: number): string {
  if (!(Math.abs(durationMs) < Number(maxNanos) / 1e6)) throw new RangeError(`duration ${durationMs} ms is out of range`);
  const wholeMs = Math.trunc(Math.abs(durationMs));
  let nanos = BigInt(wholeMs) * 1_000_000n + BigInt(Math.round((Math.abs(durationMs) - wholeMs) * 1e6));
  if (nanos === 0n) return "0s";
  const sign = durationMs < 0 ? "-" : "";
  for (const [unit, size] of [
    ["ns", 1n],
    ["µs", 1_000n],
    ["ms", 1_000_000n],
  ] as const) {
    if (nanos < 1_000_000_000n && nanos < size * 1_000n) return `${sign}${decimal(nanos, size)}${unit}`;
  }
  const hours = nanos / 3_600_000_000_000n;
  nanos %= 3_600_000_000_000n;
  const minutes = nanos / 60_000_000_000n;
  const seconds = `${decimal(nanos % 60_000_000_000n, 1_000_000_000n)}s`;
  if (hours > 0n) return `${sign}${hours}h${minutes}m${seconds}`;
  return minutes > 0n ? `${sign}${minutes}m${seconds}` : `${sign}${seconds}`;
}

function decimal(value: bigint, unit: bigint): string {
  const fraction = (value % unit)
    .toString()
    .padStart(unit.toString().length - 1, "0")
    .replace(/0+$/, "");
  return fraction === "" || unit === 1n ? `${value / unit}` : `${value / unit}.${fraction}`;
}

/** Sums whole nanoseconds, as Go does; floating point would accumulate errors. */
function magnitude(text: string): bigint {
  let total = 0n;
  for (const [, whole = "", fraction = "", unit = ""] of text.matchAll(/(\d*)(?:\.(\d*))?([a-zµμ]+)/g)) {
    total += ((unitNanos[unit] ?? 0n) * BigInt(`0${whole}${fraction}`)) / 10n ** BigInt(fraction.length);
  }
  return total;
}
