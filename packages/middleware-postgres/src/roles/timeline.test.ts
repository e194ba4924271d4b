import { describe, expect, it } from "vitest";
import {
  catchUpOf,
  type History,
  parsePosition,
  parseSwitches,
  type PrimaryHistory,
  segmentPosition,
  type TimelineSwitch,
} from "./timeline.ts";

const local: History = { systemId: "1", timeline: 1, position: 1_000, switches: [] };
const primary: PrimaryHistory = { ...local, position: 2_000, oldest: 500 };
/** Timeline 2, which began at a position of timeline 1. */
const second = (position: number): TimelineSwitch[] => [{ timeline: 1, position }];

describe("a server that follows a primary", () => {
  it.each([
    ["streams on the same timeline", local, primary, "stream"],
    ["streams from a newer timeline that began after its data", local, promoted(1_000), "stream"],
    ["is rewound if a newer timeline began before it ends", local, promoted(999), "rewind"],
    ["is rewound if the primary does not know its timeline", { ...local, timeline: 3 }, promoted(5_000), "rewind"],
    ["is copied if the primary has not kept the log that it needs", local, { ...primary, oldest: 1_001 }, "clone"],
    ["is copied if the primary has less data of the same timeline", local, { ...primary, position: 999 }, "clone"],
    [
      "streams on the same timeline with the same beginning",
      { ...local, timeline: 2, switches: second(900) },
      promoted(900),
      "stream",
    ],
    ["is copied if both call different timelines 2", { ...local, timeline: 2, switches: second(900) }, promoted(800), "clone"],
    [
      "is copied if a timeline of the primary's past is another one",
      { ...local, timeline: 2, switches: second(900) },
      { ...promoted(800), timeline: 3, switches: [...second(800), { timeline: 2, position: 2_000 }] },
      "clone",
    ],
    [
      "is copied if its own past has another timeline of the primary's number",
      { ...local, timeline: 3, switches: [...second(900), { timeline: 2, position: 950 }] },
      promoted(800),
      "clone",
    ],
    ["is copied if it belongs to another cluster", { ...local, systemId: "2" }, primary, "clone"],
  ])("%s", (_, own, other, expected) => {
    expect(catchUpOf(own, other)).toBe(expected);
  });
});

function promoted(position: number): PrimaryHistory {
  return { ...primary, timeline: 2, position: 9_000, switches: second(position) };
}

describe("positions in the log", () => {
  it("are parsed from the server's notation", () => {
    expect(parsePosition("0/3000148")).toBe(0x3000148);
    expect(parsePosition("2/0")).toBe(2 ** 33);
  });

  it("are read from history files", () => {
    const text = "1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tno recovery target specified\n";
    expect(parseSwitches(text)).toEqual([
      { timeline: 1, position: 0x3000148 },
      { timeline: 2, position: 0x5000000 },
    ]);
  });

  it("follow from the names of segments", () => {
    expect(segmentPosition("000000010000000200000003")).toBe(2 * 2 ** 32 + 3 * 2 ** 24);
  });
});
