import { expect, test } from "vitest";
import { main, podOf } from "../pod/testing/simulated-pod.ts";
import { memoryVolumeBytes } from "./memory-volumes.ts";

const withLimit = (memory: string) => ({ ...main, resources: { limits: { memory } } });

test.each([
  ["the node's memory", [main], undefined, 4096],
  ["the volume's sizeLimit", [main], "1Ki", 1024],
  ["the limits of all containers together", [withLimit("1Ki"), withLimit("2Ki")], undefined, 3072],
  ["the smallest of them", [withLimit("2Ki")], "3Ki", 2048],
  ["the node's memory if a container has no limit", [withLimit("1Ki"), main], undefined, 4096],
  ["the node's memory if the sizeLimit is 0", [main], "0", 4096],
  ["its sizeLimit if a container has a limit of 0", [withLimit("0")], "1Ki", 1024],
  ["at least a byte, because 0 means unlimited to the kernel", [main], "1m", 1],
] as const)("a volume in memory has the size of %s", (_, containers, sizeLimit, expected) => {
  expect(memoryVolumeBytes(podOf({ containers: [...containers] }), sizeLimit, "4Ki")).toBe(expected);
});
