import { Pod } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import { decideLostPod } from "./pod-gc.ts";

test("Pods of a deleted node, and terminating Pods that were never bound, are deleted", () => {
  const world = new World();
  const placed = world.create(Pod, { metadata: { name: "placed" }, spec: { nodeName: "n", containers: [] } });
  const waiting = world.create(Pod, { metadata: { name: "waiting" }, spec: { containers: [] } });
  expect(decideLostPod(placed, true)).toBeUndefined();
  expect(decideLostPod(placed, false)).toBe("node-deleted");
  expect(decideLostPod(waiting, false)).toBeUndefined();
  world.delete(Pod, "waiting", true);
  expect(decideLostPod(world.get(Pod, "waiting"), false)).toBe("never-bound");
  world.delete(Pod, "placed", true);
  expect(decideLostPod(world.get(Pod, "placed"), true)).toBeUndefined();
});
