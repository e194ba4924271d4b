import fc from "fast-check";
import { expect, test } from "vitest";
import { parseWithoutManagedFields } from "./managed-fields.ts";

const parsed = (text: string): unknown => parseWithoutManagedFields(Buffer.from(text));
const event = (object: unknown): string => JSON.stringify({ type: "ADDED", object });
const managedFields = [{ manager: 'a"]}', fieldsV1: { "f:x{[": { 'k:{"name":"w\\"}': {} } } }];

test.each([
  ["last", { name: "a", managedFields }, { name: "a" }],
  ["first", { managedFields, name: "a" }, { name: "a" }],
  ["between", { uid: "u", managedFields, name: "a" }, { uid: "u", name: "a" }],
  ["alone", { managedFields }, {}],
  ["not there", { name: "a" }, { name: "a" }],
])("leaves managedFields out where they are %s in the metadata", (_, metadata, left) => {
  const rest = { spec: { a: "ä\u{1f916}" }, status: {} };
  expect(parsed(event({ kind: "K", metadata, ...rest }))).toEqual({
    type: "ADDED",
    object: { kind: "K", metadata: left, ...rest },
  });
  expect(parsed(event({ ...rest, metadata }))).toEqual({ type: "ADDED", object: { ...rest, metadata: left } });
});

test("keeps fields of that name anywhere else", () => {
  for (const object of [
    { spec: { managedFields } },
    { managedFields, metadata: { annotations: { managedFields: "x", 'a"managedFields":[': "1" } } },
    { metadata: { ownerReferences: [{ managedFields }], labels: { object: "metadata" } } },
    { spec: { template: { metadata: { managedFields } } }, data: ["metadata", { metadata: { managedFields } }] },
    { metadata: [{ managedFields }] },
  ]) {
    expect(parsed(event(object))).toEqual({ type: "ADDED", object });
  }
  const elsewhere = { type: "ADDED", other: { metadata: { managedFields } }, object: "x" };
  expect(parsed(JSON.stringify(elsewhere))).toEqual(elsewhere);
});

test("parses a line that is not compact as it came, and says of a broken one what JSON.parse says", () => {
  const spaced = { type: "ADDED", object: { metadata: { name: "a", managedFields } } };
  expect(parsed(JSON.stringify(spaced, null, 1))).toEqual(spaced);
  for (const line of [
    '{"type":"ADDED","object":{"metadata":{"managedFields":[{"a":"',
    '{"type":"ADDED","object":{"metadata":{"managedFields":[{"a":1}',
    '{"managedFields":["a"]',
    '"\\',
    "",
  ]) {
    expect(() => parsed(line)).toThrow(SyntaxError);
  }
});

test("changes nothing but managedFields, whatever an object holds", () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.jsonValue(),
      fc.array(fc.jsonValue()),
      (metadata, spec, managed) => {
        const { managedFields: _, ...left } = metadata;
        const full = event({ metadata: { ...left, managedFields: managed }, spec });
        expect(parsed(full)).toEqual(JSON.parse(event({ metadata: left, spec })));
      },
    ),
  );
});
