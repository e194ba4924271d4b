import fc from "fast-check";
import { expect, test } from "vitest";
import {
  createSelector,
  everything,
  nothing,
  parseLabelSelector,
  selectorFromLabels,
  selectorFromObject,
  type Requirement,
} from "./label-selector.ts";
import { isStatusError } from "../protocol/status.ts";

const labels = { app: "web", tier: "front", weight: "5" };

test.each<[string, boolean]>([
  ["", true],
  ["app=web", true],
  ["app==web", true],
  ["app = web , tier != back", true],
  ["app!=web", false],
  ["absent!=x", true],
  ["app in (web,api)", true],
  ["app notin (web, api)", false],
  ["absent notin (a)", true],
  ["app", true],
  ["!app", false],
  ["!absent", true],
  ["weight>4", true],
  ["weight>5", false],
  ["weight<6", true],
  ["weight<5", false],
  ["app>4", false],
  ["absent=", false],
  ["app in ()", false],
  ["in in (in)", false],
  ["tier in (front,),app", true],
  [`app in (${Array.from({ length: 1_000 }, (_, index) => `n${index}`).join(",")},web)`, true],
  [`app in (${Array.from({ length: 1_000 }, (_, index) => `n${index}`).join(",")})`, false],
  [`app notin (${Array.from({ length: 1_000 }, (_, index) => `n${index}`).join(",")},web)`, false],
])("the selector %j matches: %s", (text, expected) => {
  expect(parseLabelSelector(text).matches(labels)).toBe(expected);
});

test.each([
  ["a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"],
  ["app in web", "unable to parse requirement: found 'web' expected: '('"],
  ["=a", "found '=', expected: !, identifier, or 'end of string'"],
  ["a=b x", "found 'x', expected: ',' or 'end of string'"],
  ["a=b=c", "found '=', expected: ',' or 'end of string'"],
  ["a=b,", "found '', expected: identifier after ','"],
  [
    "k>x",
    "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
  ],
  ["a in (b", "unable to parse requirement: found '', expected: ',' or ')'"],
  ["!=a", "found '!=', expected: !, identifier, or 'end of string'"],
])("rejects the selector %j as kube-apiserver does", (text, message) => {
  expect(() => parseLabelSelector(text)).toThrow(expect.objectContaining({ message, code: 400, reason: "BadRequest" }));
});

test("names invalid keys and values", () => {
  expect(() => parseLabelSelector("bad/key/y=x")).toThrow(
    'unable to parse requirement: <nil>: Invalid value: "bad/key/y": a valid label key',
  );
  expect(() => parseLabelSelector("k=-x-")).toThrow(
    'unable to parse requirement: values[0][k]: Invalid value: "-x-": a valid label',
  );
});

test("selects nothing with an absent selector object and everything with an empty one", () => {
  expect(selectorFromObject(undefined)).toBe(nothing);
  expect(selectorFromObject(null).matches({})).toBe(false);
  expect(selectorFromObject({}).matches(undefined)).toBe(true);
  expect(everything.matches(labels)).toBe(true);
});

test("combines labels and expressions of a selector object", () => {
  const selector = selectorFromObject({
    matchLabels: { app: "web" },
    matchExpressions: [
      { key: "tier", operator: "In", values: ["front", "back"] },
      { key: "legacy", operator: "DoesNotExist" },
    ],
  });
  expect(selector.matches(labels)).toBe(true);
  expect(selector.matches({ ...labels, legacy: "" })).toBe(false);
  expect(selector.toString()).toBe("app=web,!legacy,tier in (back,front)");
  expect(() => selectorFromObject({ matchExpressions: [{ key: "a", operator: "Like" }] })).toThrow(
    '"Like" is not a valid label selector operator',
  );
  expect(() => selectorFromObject({ matchExpressions: [{ key: "a", operator: "In" }] })).toThrow("values set can't be empty");
});

test("ignores inherited properties", () => {
  expect(parseLabelSelector("constructor").matches({})).toBe(false);
  expect(selectorFromLabels({ toString: "x" }).matches({})).toBe(false);
});

const word = fc.stringMatching(/^[a-z]([a-z0-9.-]{0,5}[a-z0-9])?$/);
const requirement: fc.Arbitrary<Requirement> = fc.oneof(
  fc.record({
    key: word,
    operator: fc.constantFrom("=" as const, "==" as const, "!=" as const),
    values: fc.array(word, { minLength: 1, maxLength: 1 }),
  }),
  fc.record({
    key: word,
    operator: fc.constantFrom("in" as const, "notin" as const),
    values: fc.uniqueArray(word, { minLength: 1, maxLength: 3 }),
  }),
  fc.record({ key: word, operator: fc.constantFrom("exists" as const, "!" as const), values: fc.constant([]) }),
  fc.record({
    key: word,
    operator: fc.constantFrom("gt" as const, "lt" as const),
    values: fc.nat().map((value) => [String(value)]),
  }),
);

test("parses what it formats", () => {
  fc.assert(
    fc.property(fc.array(requirement, { maxLength: 4 }), (requirements) => {
      const text = createSelector(requirements).toString();
      expect(parseLabelSelector(text).toString()).toBe(text);
    }),
  );
});

test("parses or rejects any text", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom("a", "in", " ", "(", ")", ",", "=", "!", "<", ">", "notin", "/") }),
      (text) => {
        expect(isParsedOrRejected(text)).toBe(true);
      },
    ),
  );
});

function isParsedOrRejected(text: string): boolean {
  try {
    return parseLabelSelector(text).toString().length >= 0;
  } catch (error) {
    return isStatusError(error, "BadRequest");
  }
}
