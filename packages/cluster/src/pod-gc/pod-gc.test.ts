import { Pod } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import { decideLostPod } from "./pod-gc.ts";

test("a Pod whose node is gone, and one that is deleted before it had one, need nobody to end them", () => {
  const world = new World();
  const placed = world.create(Pod, { metadata: { name: "placed" }, spec: { nodeName: "n", containers: [] } });
  const waiting = world.create(Pod, { metadata: { name: "waiting" }, spec: { containers: [] } });
  expect(decideLostPod(placed, true)).toBeUndefined();
  expect(decideLostPod(placed, false)).toBe("node-gone");
  expect(decideLostPod(waiting, false)).toBeUndefined();
  world.delete(Pod, "waiting", true);
  expect(decideLostPod(world.get(Pod, "waiting"), false)).toBe("never-placed");
  world.delete(Pod, "placed", true);
  expect(decideLostPod(world.get(Pod, "placed"), true)).toBeUndefined();
});
