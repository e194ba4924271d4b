import fc from "fast-check";
import { expect, it } from "vitest";
import { OutputBuffer, type OutputPart } from "./output-buffer.ts";

const forever = new AbortController().signal;

async function readAll(buffer: OutputBuffer, from = 0): Promise<OutputPart[]> {
  const parts: OutputPart[] = [];
  for await (const part of buffer.read(from, forever)) parts.push(part);
  return parts;
}

const textOf = (parts: readonly OutputPart[]): string =>
  parts.map((part) => (part.kind === "gap" ? "?".repeat(part.lostBytes) : part.data.toString())).join("");

it("continues at any offset, and marks what was dropped as a gap", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 12 })),
      fc.nat(40),
      async (texts, from) => {
        const whole = texts.join("");
        const buffer = new OutputBuffer(20, "drop");
        for (const [index, text] of texts.entries())
          await buffer.append(index % 2 === 0 ? "stdout" : "stderr", Buffer.from(text));
        buffer.end();
        const lost = Math.max(whole.length - 20, 0);
        const seen = whole.slice(0, lost).replace(/[^]/g, "?") + whole.slice(lost);
        expect(textOf(await readAll(buffer, from))).toBe(seen.slice(from));
        expect(buffer.bytes).toBe(whole.length);
      },
    ),
  );
});

it("drops nothing that no reader has taken if it waits for them", async () => {
  const buffer = new OutputBuffer(8, "wait");
  const written: string[] = [];
  const writer = (async () => {
    for (const text of ["abc", "def", "ghi", "jkl", "mno"]) {
      await buffer.append("stdout", Buffer.from(text));
      written.push(text);
    }
    buffer.end();
  })();
  await new Promise((resolve) => setImmediate(resolve));
  expect(written).toEqual(["abc"]);
  expect(textOf(await readAll(buffer))).toBe("abcdefghijklmno");
  await writer;
  // The last half is there for a reader whose connection broke.
  expect(textOf(await readAll(buffer, 9))).toBe("jklmno");
});

it("gives several readers the same output and ends each when it aborts", async () => {
  const buffer = new OutputBuffer(100, "drop");
  const control = new AbortController();
  const one = (async () => {
    for await (const part of buffer.read(0, control.signal)) return part;
    return undefined;
  })();
  const both = readAll(buffer, 1);
  await buffer.append("stderr", Buffer.from("ab"));
  expect(await one).toMatchObject({ kind: "stderr", offset: 0 });
  const aborted = buffer.read(2, control.signal).next();
  control.abort();
  expect(await aborted).toMatchObject({ done: true });
  buffer.end();
  expect(textOf(await both)).toBe("b");
});
