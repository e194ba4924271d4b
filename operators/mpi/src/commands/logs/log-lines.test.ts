import { PassThrough } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { namedLines, type RankSelection, rankLines, writeInStep } from "./log-lines.ts";

describe("named lines", () => {
  it("prefixes every line with the name, however the text is split", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: fc.constantFrom("a", "é", "\n") })), (pieces) => {
        const lines = namedLines("pod");
        const written = [...pieces.map((piece) => lines.push(Buffer.from(piece))), lines.end()];
        const text = pieces.join("");
        const whole = text === "" || text.endsWith("\n") ? text : `${text}\n`;
        expect(Buffer.concat(written).toString()).toBe(whole.replaceAll(/^(?=[^])/gm, "pod: ").replace(/pod: $/, ""));
      }),
    );
  });

  it("passes bytes that are not text unchanged", () => {
    const lines = namedLines("p");
    expect(Buffer.concat([lines.push(Buffer.from([0xff, 0x0a, 0x00])), lines.end()])).toEqual(
      Buffer.from([0x70, 0x3a, 0x20, 0xff, 0x0a, 0x70, 0x3a, 0x20, 0x00, 0x0a]),
    );
  });
});

describe("lines of ranks", () => {
  const log = "[0] zero\nmpiexec\n[1] one [0]\n[0] last";
  const selected = (selection: RankSelection) => {
    const lines = rankLines(selection);
    return Buffer.concat([
      lines.push(Buffer.from(log.slice(0, 12))),
      lines.push(Buffer.from(log.slice(12))),
      lines.end(),
    ]).toString();
  };

  it("are those of one rank, or all without labels", () => {
    expect(selected({ rank: 0, keepsLabels: false })).toBe("zero\nlast\n");
    expect(selected({ rank: 1, keepsLabels: true })).toBe("[1] one [0]\n");
    expect(selected({ keepsLabels: false })).toBe("zero\nmpiexec\none [0]\nlast\n");
    expect(selected({ keepsLabels: true })).toBe(`${log}\n`);
  });
});

it("waits for the reader before writing more", async () => {
  const out = new PassThrough({ highWaterMark: 4 });
  const { signal } = new AbortController();
  let isWritten = false;
  const writing = writeInStep(out, Buffer.from("12345678"), signal).then(() => (isWritten = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect(isWritten).toBe(false);
  out.resume();
  await writing;
});
