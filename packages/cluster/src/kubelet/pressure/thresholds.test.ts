import { expect, test } from "vitest";
import { defaultThresholds, type DiskSpace, metThresholds, parseThresholds } from "./thresholds.ts";

const gibibyte = 2 ** 30;
const space = (free: number, capacity: number, files = 1_000_000, allFiles = 1_000_000): DiskSpace => ({
  "nodefs.available": { free, capacity },
  "nodefs.inodesFree": { free: files, capacity: allFiles },
});
const met = (disk: DiskSpace): unknown =>
  metThresholds(defaultThresholds, disk).map(({ signal, threshold }) => [signal, threshold]);

test("a tenth of a small disk must be free, and a gibibyte of a large one, however full it is", () => {
  expect(met(space(0.99 * gibibyte, 10 * gibibyte))).toEqual([["nodefs.available", gibibyte]]);
  expect(met(space(gibibyte, 10 * gibibyte))).toEqual([]);
  expect(met(space(2 * gibibyte, 2_000 * gibibyte))).toEqual([]);
  expect(met(space(99, 1_000))).toEqual([["nodefs.available", 100]]);
});

test("files must be free, unless the file system has no fixed number of them", () => {
  expect(met(space(gibibyte, gibibyte, 49_999))).toEqual([["nodefs.inodesFree", 50_000]]);
  expect(met(space(gibibyte, gibibyte, 99_999, 60_000_000))).toEqual([["nodefs.inodesFree", 100_000]]);
  expect(met(space(gibibyte, gibibyte, 0, 0))).toEqual([]);
});

test("thresholds are parsed as the kubelet's, and signals that are not named keep their default", () => {
  const inodes = defaultThresholds["nodefs.inodesFree"];
  expect(parseThresholds("nodefs.available<5%")).toEqual({ "nodefs.available": { share: 0.05 }, "nodefs.inodesFree": inodes });
  expect(parseThresholds("nodefs.available<500Mi, nodefs.inodesFree<1k")).toEqual({
    "nodefs.available": { amount: 500 * 2 ** 20 },
    "nodefs.inodesFree": { amount: 1_000 },
  });
  expect(parseThresholds("nodefs.available<0%,nodefs.inodesFree<0")).toEqual({});
});

test.each([
  ["memory.available<100Mi", /"memory.available" is not a known signal; must be one of nodefs.available, nodefs.inodesFree/],
  ["nodefs.available<5%,nodefs.available<6%", /nodefs.available is specified more than once/],
  ["nodefs.available", /"nodefs.available" must be a signal, "<", and a percentage or a quantity/],
  ["nodefs.available<-1", /must be a signal/],
  ["nodefs.available<100%", /must be a signal/],
  ["nodefs.available<1<2", /must be a signal/],
  ["", /"" is not a known signal/],
])("rejects %j", (text, problem) => {
  expect(parseThresholds(text)).toEqual({ problem: expect.stringMatching(problem) });
});
