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

/** Durations longer than this do not fit Go's time.Duration (about 292 years). */
const maxNanos = 2n ** 63n;

/** Whether `text` is a duration as Go's `time.ParseDuration` takes it: `300ms`, `-1.5h`, `2h45m`, `0`. */
export function isDuration(text: string): boolean {
  return text.length <= 64 && shape.test(text) && magnitude(text) < maxNanos;
}

/**
 * Milliseconds of a Go duration string (meta/v1 Duration): `parseDuration("1m30s")` is 90000. Fractions of a millisecond stay.
 *
 * **Errors**: throws a `RangeError` that names the value where it is none.
 */
export function parseDuration(text: string): number {
  if (!isDuration(text)) {
    throw new RangeError(
      `invalid duration ${JSON.stringify(text)}: want numbers with units h, m, s, ms, us or ns, such as "1m30s"`,
    );
  }
  const nanos = magnitude(text);
  const durationMs = Number(nanos / 1_000_000n) + Number(nanos % 1_000_000n) / 1e6;
  return text.startsWith("-") && durationMs !== 0 ? -durationMs : durationMs;
}

/**
 * A duration as Go prints it: `formatDuration(90_000)` is `1m30s`, below a second `250ms`, and 0 is `0s`.
 *
 * **Errors**: throws a `RangeError` where `durationMs` is not a finite number in the range of Go's durations.
 */
export function formatDuration(durationMs: number): string {
  if (!(Math.abs(durationMs) < Number(maxNanos) / 1e6)) throw new RangeError(`duration of ${durationMs} ms is out of range`);
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

/** Whole nanoseconds, as Go counts, so that sums of decimal fractions leave no binary dust. */
function magnitude(text: string): bigint {
  let total = 0n;
  for (const [, whole = "", fraction = "", unit = ""] of text.matchAll(/(\d*)(?:\.(\d*))?([a-zµμ]+)/g)) {
    total += ((unitNanos[unit] ?? 0n) * BigInt(`0${whole}${fraction}`)) / 10n ** BigInt(fraction.length);
  }
  return total;
}
