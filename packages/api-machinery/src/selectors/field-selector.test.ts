import fc from "fast-check";
import { expect, test } from "vitest";
import { createFieldSelector, parseFieldSelector } from "./field-selector.ts";

const fields: Record<string, string> = { "metadata.name": "a", "status.phase": "Running" };
const valueOf = (field: string) => fields[field];

test.each<[string, boolean]>([
  ["", true],
  ["metadata.name=a", true],
  ["metadata.name==a,status.phase!=Pending", true],
  ["metadata.name!=a", false],
  ["spec.nodeName=", true],
  ["spec.nodeName!=", false],
])("the field selector %j matches: %s", (text, expected) => {
  expect(parseFieldSelector(text).matches(valueOf)).toBe(expected);
});

test.each([
  ["metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"],
  ["a=b\\x", "invalid field selector: invalid escape sequence: \\x"],
  ["a=b\\", "invalid field selector: invalid escape sequence: \\"],
  ["a=b=c", "invalid field selector: unescaped character in value: 61"],
])("rejects the field selector %j as kube-apiserver does", (text, message) => {
  expect(() => parseFieldSelector(text)).toThrow(expect.objectContaining({ message, code: 400 }));
});

test("formats and parses any value", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("a", ",", "=", "\\", "!", " ") }), (value) => {
      const text = createFieldSelector([{ field: "x", operator: "=", value }]).toString();
      expect(parseFieldSelector(text).requirements).toEqual([{ field: "x", operator: "=", value }]);
    }),
  );
});
