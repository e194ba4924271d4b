import fc from "fast-check";
import { expect, test } from "vitest";
import { LineSplitter } from "./line-splitter.ts";

test("returns the same lines for any chunks, even within a character", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.string({ unit: "grapheme", minLength: 1 }).filter((line) => !line.includes("\n")),
        { maxLength: 8 },
      ),
      fc.array(fc.nat(200), { maxLength: 12 }),
      (lines, cuts) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
        const splitter = new LineSplitter(1 << 20);
        const got: string[] = [];
        const places = [...new Set(cuts.map((cut) => Math.min(cut, bytes.length)))].sort((a, b) => a - b);
        let start = 0;
        for (const end of [...places, bytes.length]) {
          got.push(...splitter.push(bytes.subarray(start, end)).map(String));
          start = end;
        }
        expect(got).toEqual(lines);
        expect(splitter.pendingBytes).toBe(0);
      },
    ),
  );
});

test("reports the number of bytes of the incomplete line", () => {
  const splitter = new LineSplitter(100);
  expect(splitter.push(Buffer.from("a\nbcd")).map(String)).toEqual(["a"]);
  expect(splitter.pendingBytes).toBe(3);
});

test("rejects a line that is too long, in one chunk or several", () => {
  expect(() => new LineSplitter(3).push(Buffer.from("abcd\n"))).toThrow(/longer than 3 bytes/);
  const splitter = new LineSplitter(3);
  splitter.push(Buffer.from("ab"));
  expect(() => splitter.push(Buffer.from("cd"))).toThrow(/longer than 3 bytes/);
});
