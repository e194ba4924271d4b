import { CelError } from "../cel-error.ts";

/** A version of Semantic Versioning 2.0. */
export class SemanticVersion {
  readonly numbers: readonly [major: bigint, minor: bigint, patch: bigint];
  /** Identifiers of a pre-release. Empty: a release. */
  readonly preRelease: readonly string[];

  constructor(numbers: SemanticVersion["numbers"], preRelease: readonly string[]) {
    this.numbers = numbers;
    this.preRelease = preRelease;
  }

  /** Negative if this version precedes the other one, positive if it follows, zero if they differ in build metadata only. */
  compare(other: SemanticVersion): number {
    for (const [index, number] of this.numbers.entries()) {
      const otherNumber = other.numbers[index] ?? 0n;
      if (number !== otherNumber) return number < otherNumber ? -1 : 1;
    }
    return comparePreReleases(this.preRelease, other.preRelease);
  }
}

/** A pre-release precedes its release. One with more identifiers follows if all before are equal. */
function comparePreReleases(a: readonly string[], b: readonly string[]): number {
  if (a.length === 0 || b.length === 0) return Math.sign(b.length - a.length);
  for (const [index, own] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    const difference = compareIdentifiers(own, other);
    if (difference !== 0) return difference;
  }
  return a.length < b.length ? -1 : 0;
}

/** Numbers are compared as numbers and precede texts. */
function compareIdentifiers(a: string, b: string): number {
  const [isNumber, isOtherNumber] = [digits.test(a), digits.test(b)];
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  const [own, other] = isNumber ? [BigInt(a), BigInt(b)] : [a, b];
  return own === other ? 0 : own < other ? -1 : 1;
}

const digits = /^\d+$/;
const identifier = /^[\dA-Za-z-]+$/;
const maxNumber = (1n << 64n) - 1n;

/** Parses a version. Throws a CelError with the message of Kubernetes. */
export function parseVersion(text: string): SemanticVersion {
  if (text === "") throw fault("Version string empty");
  const parts = text.split(".");
  const [major = "", minor = ""] = parts;
  if (parts.length < 3) throw fault("No Major.Minor.Patch elements found");
  const rest = parts.slice(2).join(".");
  const plus = rest.indexOf("+");
  const build = plus < 0 ? undefined : rest.slice(plus + 1);
  const version = plus < 0 ? rest : rest.slice(0, plus);
  const minus = version.indexOf("-");
  const patch = minus < 0 ? version : version.slice(0, minus);
  const numbers = [numberOf("Major", major), numberOf("Minor", minor), numberOf("Patch", patch)] as const;
  const preRelease = minus < 0 ? [] : version.slice(minus + 1).split(".");
  for (const part of preRelease) requirePreRelease(part);
  for (const part of build?.split(".") ?? []) {
    if (part === "") throw fault("Build meta data is empty");
    if (!identifier.test(part)) throw fault(`Invalid character(s) found in build meta data ${JSON.stringify(part)}`);
  }
  return new SemanticVersion(numbers, preRelease);
}

/** Parses a version without minor or patch, with leading zeros or a leading `v`. */
export function parseTolerantly(text: string): SemanticVersion {
  const [major = "", minor, ...patch] = text.replace(/^v/, "").split(".");
  const parts = [major, minor, patch.length === 0 ? undefined : patch.join(".")].filter((part) => part !== undefined);
  if (parts.length < 3 && /[+-]/.test(parts.at(-1) ?? "")) {
    throw fault("short version cannot contain PreRelease/Build meta data");
  }
  return parseVersion([...parts.map(withoutLeadingZeros), "0", "0"].slice(0, 3).join("."));
}

/** At least one digit remains. */
function withoutLeadingZeros(part: string): string {
  if (part.length < 2) return part;
  const rest = part.replace(/^0+/, "");
  return /^\d/.test(rest) ? rest : `0${rest}`;
}

function numberOf(name: string, text: string): bigint {
  if (!digits.test(text)) throw fault(`Invalid character(s) found in ${name.toLowerCase()} number ${JSON.stringify(text)}`);
  if (text.length > 1 && text.startsWith("0"))
    throw fault(`${name} number must not contain leading zeroes ${JSON.stringify(text)}`);
  const value = BigInt(text);
  if (value > maxNumber) throw fault(`strconv.ParseUint: parsing ${JSON.stringify(text)}: value out of range`);
  return value;
}

function requirePreRelease(part: string): void {
  if (part === "") throw fault("Prerelease is empty");
  if (!identifier.test(part)) throw fault(`Invalid character(s) found in prerelease ${JSON.stringify(part)}`);
  if (digits.test(part) && part.length > 1 && part.startsWith("0")) {
    throw fault(`Numeric PreRelease version must not contain leading zeroes ${JSON.stringify(part)}`);
  }
}

function fault(message: string): CelError {
  return new CelError("ParseError", message);
}
