import { expect, test } from "vitest";
import { LineFilter } from "./line-filter.ts";

const times = { at: (offset: number) => Date.UTC(2030, 0, 1) + offset * 1_000 };
const stamp = (seconds: number): string => `2030-01-01T00:00:${String(seconds).padStart(2, "0")}.000000000Z `;

function filter(
  options: { readonly since?: number; readonly timestamps: boolean },
  parts: readonly string[],
): readonly string[] {
  const lines = new LineFilter(options, times);
  let at = 0;
  return parts.map((part) => {
    const bytes = Buffer.from(part);
    const shaped = Buffer.from(lines.push(bytes, at)).toString();
    at += bytes.length;
    return shaped;
  });
}

test("passes a line without an end through as it arrives, with the time of its first byte", () => {
  expect(filter({ timestamps: true }, ["ab", "cd", "e\nf", "g\n", "\nh"])).toEqual([
    `${stamp(0)}ab`,
    "cd",
    `e\n${stamp(6)}f`,
    "g\n",
    `${stamp(9)}\n${stamp(10)}h`,
  ]);
});

test("omits lines that began too early, also the parts that arrive later", () => {
  const since = times.at(5);
  expect(filter({ since, timestamps: false }, ["ab", "cdefgh\ni", "j\n"])).toEqual(["", "i", "j\n"]);
});
