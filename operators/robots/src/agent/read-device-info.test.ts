import { tmpdir } from "node:os";
import { expect, it } from "vitest";
import { readDeviceInfo, steadySize } from "./read-device-info.ts";

it("reports the file system of the tasks' directory with a size that small changes leave alone", () => {
  const { disks = [] } = readDeviceInfo(0, { workDir: tmpdir() });
  expect(disks).toHaveLength(1);
  expect(tmpdir().startsWith(disks[0]?.mountPoint ?? "none")).toBe(true);
  expect(disks[0]?.total).toBeGreaterThan(0);
  expect(readDeviceInfo(0, { workDir: "/no/such/folder" }).disks).toEqual([]);
  const [gibibyte, size] = [2 ** 30, 100 * 2 ** 30];
  expect(steadySize(size)).toBe(size);
  expect(steadySize(size + gibibyte)).toBe(size);
  expect(steadySize(size + gibibyte)).toBeGreaterThan((size + gibibyte) * 0.96);
  expect([steadySize(0), steadySize(31)]).toEqual([0, 31]);
});
