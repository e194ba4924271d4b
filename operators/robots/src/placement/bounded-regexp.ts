const longestPattern = 256;
const longestInput = 256;
const mostRepeats = 3;

/**
 * A test by regular expression whose time is bounded, although the expression is somebody else's: patterns that can make
 * JavaScript's engine backtrack without end are refused.
 *
 * A pattern may have 256 characters and three repetitions (`*`, `+`, `{n,}`), none of them of a group, and no look-around or
 * backreference; then a test takes at most a polynomial of the third degree of 256 characters.
 *
 * Returns why the pattern is refused, or the test.
 */
export function boundedRegExp(pattern: string): { readonly refused: string } | { readonly test: (input: string) => boolean } {
  if (pattern.length > longestPattern) return { refused: `is longer than ${longestPattern} characters` };
  let isClass = false;
  let repeats = 0;
  for (let index = 0; index < pattern.length; index++) {
    const character = pattern.charAt(index);
    const next = pattern.charAt(index + 1);
    if (character === "\\") {
      if (!isClass && /[1-9k]/.test(next)) return { refused: "has a backreference" };
      index++;
    } else if (isClass) {
      if (character === "]") isClass = false;
    } else if (character === "[") {
      isClass = true;
    } else if (character === "(") {
      if (next === "?" && pattern.charAt(index + 2) !== ":") return { refused: "has a look-around, a named group or a flag" };
    } else if (character === ")") {
      if (next === "*" || next === "+" || next === "{") return { refused: "repeats a group" };
    } else if (character === "*" || character === "+" || character === "{") {
      repeats++;
      if (repeats > mostRepeats) return { refused: `has more than ${mostRepeats} repetitions` };
    }
  }
  let expression: RegExp;
  try {
    expression = new RegExp(pattern);
  } catch {
    return { refused: "is no regular expression" };
  }
  return { test: (input) => expression.test(input.slice(0, longestInput)) };
}
