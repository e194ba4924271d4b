import { expect, test } from "vitest";
import { dataEndOf } from "./shutdown-checkpoint.ts";

const control = (location: string, state = "shut down"): string =>
  `Database cluster state:               ${state}\nLatest checkpoint location:           ${location}\nLatest checkpoint's REDO location:    ${location}\n`;

test.each([
  ["in the first page of a segment", "0/5000028", "0/5000000"],
  ["in the first segment of the next log file", "1A/28", "1A/0"],
  ["at the start of a page", "0/5002018", "0/5002000"],
  ["within a page", "0/50000A0", "0/50000A0"],
])("the data of a server ends before its checkpoint %s", (_, location, end) => {
  expect(dataEndOf(control(location))).toBe(end);
});

test("nothing is known unless a primary was shut down cleanly", () => {
  expect(dataEndOf(control("0/5000028", "in production"))).toBeUndefined();
  expect(dataEndOf(control("0/5000028", "shut down in recovery"))).toBeUndefined();
  expect(dataEndOf("")).toBeUndefined();
});
