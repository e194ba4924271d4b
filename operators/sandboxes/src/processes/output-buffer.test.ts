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

it("joins small parts, so that output written byte by byte is read in few parts", async () => {
  const buffer = new OutputBuffer(100_000, "drop");
  for (let index = 0; index < 10_000; index++) await buffer.append("stdout", Buffer.from(String(index % 10)));
  buffer.end();
  const parts = await readAll(buffer);
  expect(textOf(parts)).toBe("0123456789".repeat(1_000));
  expect(parts.length).toBeLessThan(10);
});

it("does not change a part that a reader has when more is written", async () => {
  const buffer = new OutputBuffer(100, "drop");
  await buffer.append("stdout", Buffer.from("ab"));
  const { value: part } = await buffer.read(0, forever).next();
  await buffer.append("stdout", Buffer.from("cd"));
  buffer.end();
  expect(textOf([part as OutputPart])).toBe("ab");
  expect(textOf(await readAll(buffer, 1))).toBe("bcd");
});

it.each(["drop", "wait"] as const)(
  "limits the parts of a process that alternates between its outputs (%s)",
  async (whenFull) => {
    const buffer = new OutputBuffer(1_000_000, whenFull);
    const count = 20_000;
    let written = 0;
    const writer = (async () => {
      for (; written < count; written++) await buffer.append(written % 2 === 0 ? "stdout" : "stderr", Buffer.from("x"));
      buffer.end();
    })();
    if (whenFull === "drop") await writer;
    else await new Promise((resolve) => setImmediate(resolve));
    expect(written < count).toBe(whenFull === "wait");
    const parts = await readAll(buffer);
    await writer;
    const lost = parts.reduce((sum, part) => sum + (part.kind === "gap" ? part.lostBytes : 0), 0);
    expect(lost).toBe(whenFull === "wait" ? 0 : count - 16_384);
  },
);

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

it("keeps parts for a reader that returns, even if they are small and alternate between the outputs", async () => {
  const buffer = new OutputBuffer(1 << 20, "wait");
  let written = 0;
  const writer = (async () => {
    for (; written < 20_000; written++) await buffer.append(written % 2 === 0 ? "stdout" : "stderr", Buffer.from("x"));
    buffer.end();
  })();
  const wait = () => new Promise((resolve) => setImmediate(resolve));
  while (written < 8_192) await wait();
  await wait();
  // Waits for a reader before the limit on parts makes it drop what the reader has just taken.
  expect(written).toBe(8_192);
  const reader = buffer.read(0, forever);
  for (let taken = 0; taken < 100; taken++) await reader.next();
  await reader.return(undefined);
  expect((await readAll(buffer, 50))[0]).toMatchObject({ kind: "stdout", offset: 50 });
  await writer;
});
