import { expect, test } from "vitest";
import { cpuShares, limitsOf } from "./container-limits.ts";

test.each([
  [undefined, { cpuShares: 2 }],
  [{ requests: { memory: "1Gi" } }, { cpuShares: 2 }],
  [{ requests: { cpu: "20m" } }, { cpuShares: 20 }],
  [
    { requests: { cpu: "0.25" }, limits: { cpu: "2" } },
    { cpuShares: 256, cpuMillis: 2000 },
  ],
  [{ limits: { cpu: "500m", memory: "20Mi" } }, { cpuShares: 512, cpuMillis: 500, memoryBytes: 20 << 20 }],
  [
    { requests: { cpu: "1m" }, limits: { cpu: "0" } },
    { cpuShares: 2, cpuMillis: 1 },
  ],
])("gives a container with resources %j the limits and the share of the kubelet", (resources, expected) => {
  expect(limitsOf(resources)).toEqual(expected);
});

test("keeps shares within the range of the kernel", () => {
  expect([0, 1, 3, 1000, 256_000, 1_000_000].map(cpuShares)).toEqual([2, 2, 3, 1024, 262_144, 262_144]);
});
