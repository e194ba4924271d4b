import { describe, expect, it } from "vitest";
import { choosePath } from "../backup/recovery-target.ts";
import { type AvailableLog, gapAfter, isArchived, nameOf, nextFile, nothingArchived, parseSegment } from "./log-position.ts";

const name = (timeline: number, number: number): string => nameOf({ timeline, number });
const names = (timeline: number, from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, at) => name(timeline, from + at));
const position = (segment: number): number => segment * 2 ** 24 + 100;

/** A primary on timeline 2, promoted within segment 5. */
const promoted: AvailableLog = {
  names: new Set([...names(1, 3, 4), `${name(1, 5)}.partial`, ...names(2, 5, 8), "00000002.history", "archive_status"]),
  timeline: 2,
  switches: [{ timeline: 1, position: position(5) }],
  current: 8,
};
const first: AvailableLog = { names: new Set(names(1, 3, 6)), timeline: 1, switches: [], current: 6 };

/** The names in the order in which they are archived. */
function archivedFrom(archived: Parameters<typeof nextFile>[0], log: AvailableLog): string[] {
  const found: string[] = [];
  for (let next = nextFile(archived, log); next.kind === "file"; next = nextFile(next.archived, log)) found.push(next.name);
  return found;
}

describe("the next file of the log", () => {
  it("is the oldest one at first, and no segment that is being written", () => {
    expect(archivedFrom(nothingArchived, first)).toEqual(names(1, 3, 5));
  });

  it("continues on the timeline of a new primary, after its history, with the segment of the switch", () => {
    expect(archivedFrom({ segments: { 1: 3 }, histories: [] }, promoted)).toEqual([
      "00000002.history",
      name(1, 4),
      ...names(2, 5, 7),
    ]);
  });

  it("goes back to the switch if a former primary has archived more than its successor has", () => {
    expect(archivedFrom({ segments: { 1: 9 }, histories: [2] }, promoted)).toEqual(names(2, 5, 7));
  });

  it("is missing if the server has deleted it", () => {
    expect(nextFile({ segments: { 1: 1 }, histories: [] }, first)).toEqual({ kind: "missing", name: name(1, 2), oldest: 3 });
    expect(nextFile({ segments: { 1: 1 }, histories: [] }, first, 3)).toMatchObject({ kind: "file", name: name(1, 3) });
  });

  it("ignores timelines of which this server knows nothing", () => {
    expect(archivedFrom({ segments: { 7: 40 }, histories: [2] }, promoted)).toEqual([...names(1, 3, 4), ...names(2, 5, 7)]);
  });
});

describe("the files that need not be kept", () => {
  const archived = { segments: { 1: 4, 3: 9 }, histories: [3] };
  it.each([
    [name(1, 4), true],
    [name(2, 9), true],
    [name(3, 10), false],
    [name(4, 2), false],
    ["00000003.history", true],
    ["00000004.history", false],
    [`${name(3, 11)}.partial`, true],
    [`${name(3, 11)}.00000028.backup`, true],
  ])("%s: %s", (file, expected) => {
    expect(isArchived(file, archived)).toBe(expected);
  });
});

it("reads and writes the names of segments beyond 4 GiB", () => {
  expect(name(2, 0x3_05)).toBe("000000020000000300000005");
  expect(parseSegment("000000020000000300000005")).toEqual({ timeline: 2, number: 0x3_05 });
});

it("finds a gap between the last segment that was used and later ones", () => {
  expect(gapAfter(5, 1, new Set(names(1, 3, 5)))).toBeUndefined();
  expect(gapAfter(5, 1, new Set(names(1, 3, 7)))).toBe(name(1, 6));
  expect(gapAfter(5, 1, new Set(names(2, 6, 7)))).toBeUndefined();
});

it("recovers along the newest timeline that continues the backup, and not along one that forked before it ends", () => {
  const histories = [
    { timeline: 2, switches: [{ timeline: 1, position: position(4) }] },
    { timeline: 3, switches: [{ timeline: 1, position: position(9) }] },
    {
      timeline: 5,
      switches: [
        { timeline: 1, position: position(4) },
        { timeline: 2, position: position(20) },
      ],
    },
  ];
  expect(choosePath(histories, { timeline: 1, end: "0/6000000" })).toEqual({ timeline: 3, newest: 5 });
  expect(choosePath(histories, { timeline: 2, end: "0/6000000" })).toEqual({ timeline: 5, newest: 5 });
  expect(choosePath([], { timeline: 1, end: "0/6000000" })).toEqual({ timeline: 1, newest: 1 });
});
