interface Version {
  readonly numbers: readonly number[];
  readonly prerelease: string;
}

function parse(text: string): Version | undefined {
  const match = /^v?(\d{1,9}(?:\.\d{1,9}){0,7})(?:[-~]?([0-9A-Za-z.-]{1,64}))?(?:\+.*)?$/.exec(text.trim());
  if (!match?.[1]) return undefined;
  return { numbers: match[1].split(".").map(Number), prerelease: match[2] ?? "" };
}

function compare(a: Version, b: Version): number {
  const length = Math.max(a.numbers.length, b.numbers.length);
  for (let index = 0; index < length; index++) {
    const difference = (a.numbers[index] ?? 0) - (b.numbers[index] ?? 0);
    if (difference !== 0) return difference;
  }
  if (a.prerelease === b.prerelease) return 0;
  if (a.prerelease === "") return 1;
  if (b.prerelease === "") return -1;
  return a.prerelease < b.prerelease ? -1 : 1;
}

/**
 * Whether `version` satisfies `constraint`: comma-separated comparisons, all of which must hold, such as `>= 1.2, < 2.0`, `1.4` or
 * `~> 5.10` (at least 5.10, below 6). Undefined if either cannot be parsed.
 */
export function satisfiesVersion(version: string, constraint: string): boolean | undefined {
  const actual = parse(version);
  if (!actual) return undefined;
  let holds = true;
  for (const part of constraint.split(",")) {
    const match = /^\s*(=|==|!=|>=|>|<=|<|~>)?\s*(\S+)\s*$/.exec(part);
    const wanted = match?.[2] === undefined ? undefined : parse(match[2]);
    if (!match || !wanted) return undefined;
    const order = compare(actual, wanted);
    switch (match[1] ?? "=") {
      case "!=":
        holds &&= order !== 0;
        break;
      case ">":
        holds &&= order > 0;
        break;
      case ">=":
        holds &&= order >= 0;
        break;
      case "<":
        holds &&= order < 0;
        break;
      case "<=":
        holds &&= order <= 0;
        break;
      case "~>": {
        const fixed = Math.max(wanted.numbers.length - 1, 1);
        holds &&=
          order >= 0 && wanted.numbers.slice(0, fixed).every((number, index) => (actual.numbers[index] ?? 0) === number);
        break;
      }
      default:
        holds &&= order === 0;
    }
  }
  return holds;
}
