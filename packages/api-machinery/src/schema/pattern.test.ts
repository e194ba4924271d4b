import fc from "fast-check";
import { expect, test } from "vitest";
import { compilePattern } from "./pattern.ts";

const cases: [pattern: string, matches: string[], misses: string[]][] = [
  ["^a+$", ["a", "aaa"], ["", "b", "ab"]],
  ["b", ["abc"], ["ac"]],
  ["^(foo|bar)?$", ["", "foo", "bar"], ["foobar"]],
  ["^[[:alpha:]][\\w.-]{0,3}$", ["a", "Ab.-"], ["1", "abcde", "a/"]],
  ["(?i)^hello$", ["HeLLo"], ["hell"]],
  ["^a.c$", ["abc", "a😀c"], ["a\nc", "ac"]],
  ["(?s)^a.c$", ["a\nc"], []],
  ["\\Aab\\z", ["ab"], ["ab\n", "xab"]],
  ["^\\pL+$", ["äß"], ["1"]],
  ["^[^a-c]*$", ["", "xyz"], ["xbz"]],
  ["^(?P<year>\\d{4})-(?:0[1-9]|1[0-2])$", ["2024-12"], ["2024-13"]],
  ["^\\x41\\x{42}\\n?$", ["AB", "AB\n"], ["ab"]],
  ["^\\Qa.b\\E$", ["a.b"], ["axb"]],
  ["\\bfoo\\b", ["a foo b"], ["afoo"]],
  ["^[]a]$", ["]", "a"], ["b"]],
  ["^a{2,}$", ["aa", "aaaa"], ["a"]],
  ["a{,2}", ["a{,2}"], ["aa"]],
  ["", ["", "x"], []],
];

test.each(cases)("matches %j as Go does", (pattern, matches, misses) => {
  for (const text of matches) expect([text, compilePattern(pattern).test(text)]).toEqual([text, true]);
  for (const text of misses) expect([text, compilePattern(pattern).test(text)]).toEqual([text, false]);
});

test.each([
  ["(", "error parsing regexp: missing closing ): `(`"],
  ["a)", "error parsing regexp: unexpected ): `a)`"],
  ["[a", "error parsing regexp: missing closing ]: `[a`"],
  ["*", "error parsing regexp: missing argument to repetition operator: `*`"],
  ["a**", "error parsing regexp: invalid nested repetition operator: `**`"],
  ["(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"],
  ["\\y", "error parsing regexp: invalid escape sequence: `\\y`"],
  ["[z-a]", "error parsing regexp: invalid character class range: `z-a`"],
  ["a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"],
])("rejects %j with Go's message", (pattern, message) => {
  expect(() => compilePattern(pattern)).toThrow(new SyntaxError(message));
});

test("takes linear time for patterns that make backtracking engines explode", () => {
  expect(compilePattern("^(a+)+$").test(`${"a".repeat(5_000)}b`)).toBe(false);
  expect(compilePattern("^(a|aa)+$").test(`${"a".repeat(5_000)}b`)).toBe(false);
  expect(compilePattern("(a+)+b").find("a".repeat(5_000))).toEqual([]);
});

test("rejects nested repeat counts that multiply beyond 1,000", () => {
  expect(() => compilePattern("((((a{999}){999}){999}){999})")).toThrow("invalid repeat count");
});

test("agrees with JavaScript's engine on patterns that mean the same in both", () => {
  const atom = fc.constantFrom("a", "b", "[ab]", "[^a]", ".", "^", "$", "(a|b)", "(ab)");
  const piece = fc
    .tuple(atom, fc.constantFrom("", "?", "{1,2}", "*"))
    .map(([left, right]) => left + (/[$^]/.test(left) ? "" : right));
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 4 }),
      fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 8 }),
      (parts, text) => {
        const pattern = parts.join("");
        expect(compilePattern(pattern).test(text)).toBe(new RegExp(pattern).test(text));
      },
    ),
  );
});

test("finds successive matches up to a limit", () => {
  const pattern = compilePattern("[a-z]+\\d?");
  expect(pattern.find("ab1 c2 d")).toEqual(["ab1", "c2", "d"]);
  expect(pattern.find("ab1 c2 d", 2)).toEqual(["ab1", "c2"]);
  expect(pattern.find("123")).toEqual([]);
});
