import fc from "fast-check";
import { expect, test } from "vitest";
import { openSealedText, sealText } from "./sealed-text.ts";

test("opens what it sealed, and a line without a digest", () => {
  expect(openSealedText(sealText('{"a":1}'))).toBe('{"a":1}');
  expect(openSealedText('{"a":1}\n')).toBe('{"a":1}');
  expect(openSealedText('{"a":1}')).toBe('{"a":1}');
});

test("never returns other JSON for a text with a flipped bit or a lost end", () => {
  const json = '{"attempt":1,"uid":"a"}';
  const bytes = Buffer.from(sealText(json), "latin1");
  const isUnharmed = (text: string): boolean => {
    const opened = openSealedText(text);
    // Without its last line, the text is that of an earlier version. A JSON parser rejects every other cut.
    return opened === undefined || opened === json || !isJson(opened);
  };
  fc.assert(
    fc.property(fc.nat(bytes.length - 1), fc.nat(7), (index, bit) => {
      const damaged = Buffer.from(bytes);
      damaged.writeUInt8(damaged.readUInt8(index) ^ (1 << bit), index);
      return isUnharmed(damaged.toString("latin1"));
    }),
    { numRuns: 500 },
  );
  for (let length = 0; length < bytes.length; length++) expect(isUnharmed(bytes.toString("latin1", 0, length))).toBe(true);
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
