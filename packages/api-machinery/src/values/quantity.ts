/** The notation of a quantity, kept when it is formatted: `k M G`, `Ki Mi Gi` or `e3`. */
export type QuantityFormat = "DecimalSI" | "BinarySI" | "DecimalExponent";

/** An amount of a resource (apimachinery `resource.Quantity`), exact to 10^-9. */
export interface Quantity {
  /** The amount times 10^9. */
  readonly nanos: bigint;
  readonly format: QuantityFormat;
}

/** A quantity as text, as a number (manifests allow both) or parsed. */
export type QuantityLike = string | number | Quantity;

const unit = 1_000_000_000n;
/** The maximum amount in Kubernetes, 2^63 - 1. */
const maxNanos = (2n ** 63n - 1n) * unit;

const decimalExponents: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  "": 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
const binaryPowers: Readonly<Record<string, bigint>> = { Ki: 1n, Mi: 2n, Gi: 3n, Ti: 4n, Pi: 5n, Ei: 6n };

const decimalSuffixes = new Map(Object.entries(decimalExponents).map(([suffix, exponent]) => [exponent, suffix]));
const binarySuffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** Longer texts can only be amounts out of range. */
const maxLength = 128;

/**
 * Parses a quantity: `0.5`, `500m`, `1.5Gi`, `1e3`. Digits beyond 10^-9 round away from zero; amounts beyond 2^63 - 1 are
 * capped.
 *
 * **Errors**: a `RangeError` with kube-apiserver's message if the value is not a quantity.
 */
export function parseQuantity(value: QuantityLike): Quantity {
  if (typeof value === "object") return value;
  const text = typeof value === "number" ? String(value) : value;
  // Most amounts in large objects are small integers.
  if (text.length <= 15 && /^\d+$/.test(text)) return { nanos: BigInt(text) * unit, format: "DecimalSI" };
  const match = text.length > maxLength ? null : /^([+-]?)(\d*)(?:\.(\d*))?(.*)$/s.exec(text);
  const [, sign = "", whole = "", fraction = "", suffix = ""] = match ?? [];
  if (!match || (whole === "" && fraction === "")) throw unreadable(text);
  const scale = readSuffix(suffix, text);
  let numerator = BigInt(whole + fraction) * scale.multiplier * unit;
  let denominator = 10n ** BigInt(fraction.length);
  if (scale.exponent >= 0) numerator *= 10n ** BigInt(scale.exponent);
  else denominator *= 10n ** BigInt(-scale.exponent);
  let nanos = (numerator + denominator - 1n) / denominator;
  if (nanos > maxNanos) nanos = maxNanos;
  return { nanos: sign === "-" ? -nanos : nanos, format: scale.format };
}

/** Reports whether `value` is a quantity. */
export function isQuantity(value: unknown): value is string | number {
  if (typeof value !== "string" && typeof value !== "number") return false;
  try {
    parseQuantity(value);
    return true;
  } catch {
    return false;
  }
}

/**
 * Formats a quantity canonically: an integer with the largest suffix that loses no precision, such as `1500m`, `1536Mi` or
 * `12e6`. Binary quantities that are fractional or below 1024 are formatted in decimal.
 */
export function formatQuantity(value: QuantityLike): string {
  const { nanos, format } = parseQuantity(value);
  if (nanos === 0n) return "0";
  const sign = nanos < 0n ? "-" : "";
  let mantissa = nanos < 0n ? -nanos : nanos;
  if (format === "BinarySI" && mantissa >= 1024n * unit && mantissa % unit === 0n) {
    mantissa /= unit;
    let power = 0;
    for (; mantissa % 1024n === 0n && power < 6; power++) mantissa /= 1024n;
    return `${sign}${mantissa}${binarySuffixes[power]}`;
  }
  let exponent = -9;
  for (; mantissa % 1000n === 0n && exponent < 18; exponent += 3) mantissa /= 1000n;
  if (format === "DecimalExponent") return `${sign}${mantissa}${exponent === 0 ? "" : `e${exponent}`}`;
  return `${sign}${mantissa}${decimalSuffixes.get(exponent)}`;
}

/** Compares two quantities by amount: negative if `a` is less than `b`, 0 if they are equal, positive if `a` is greater. */
export function compareQuantities(a: QuantityLike, b: QuantityLike): number {
  const left = parseQuantity(a).nanos;
  const right = parseQuantity(b).nanos;
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Returns the sum, in the format of the first operand that is not zero. */
export function addQuantities(a: QuantityLike, b: QuantityLike): Quantity {
  const left = parseQuantity(a);
  const right = parseQuantity(b);
  return { nanos: left.nanos + right.nanos, format: left.nanos === 0n ? right.format : left.format };
}

/** Returns the difference `a - b`, in the format of the first operand that is not zero. */
export function subtractQuantities(a: QuantityLike, b: QuantityLike): Quantity {
  const { nanos, format } = parseQuantity(b);
  return addQuantities(a, { nanos: -nanos, format });
}

/** Returns the amount in whole units, such as bytes, rounded away from zero. */
export function quantityToBytes(value: QuantityLike): number {
  return Number(roundAway(parseQuantity(value).nanos, unit));
}

/** Returns the amount in thousandths, such as millicores, rounded away from zero. */
export function quantityToMillis(value: QuantityLike): number {
  return Number(roundAway(parseQuantity(value).nanos, 1_000_000n));
}

function roundAway(nanos: bigint, divisor: bigint): bigint {
  return nanos < 0n ? -((-nanos + divisor - 1n) / divisor) : (nanos + divisor - 1n) / divisor;
}

function readSuffix(suffix: string, text: string): { multiplier: bigint; exponent: number; format: QuantityFormat } {
  if (Object.hasOwn(decimalExponents, suffix)) {
    return { multiplier: 1n, exponent: decimalExponents[suffix] ?? 0, format: "DecimalSI" };
  }
  if (Object.hasOwn(binaryPowers, suffix)) {
    return { multiplier: 1024n ** (binaryPowers[suffix] ?? 0n), exponent: 0, format: "BinarySI" };
  }
  const exponent = /^[eE]([+-]?\d{1,5})$/.exec(suffix);
  if (exponent) {
    // Beyond these exponents the result is the cap or the minimum, whatever the digits.
    const bounded = Math.max(-400, Math.min(400, Number(exponent[1])));
    return { multiplier: 1n, exponent: bounded, format: "DecimalExponent" };
  }
  throw unreadable(text);
}

function unreadable(text: string): RangeError {
  const expression = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";
  const shown = text.length > maxLength ? `${text.slice(0, maxLength)}...` : text;
  return new RangeError(`quantity ${JSON.stringify(shown)}: quantities must match the regular expression '${expression}'`);
}
