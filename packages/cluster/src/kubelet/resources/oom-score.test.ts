import type { Container } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { main, podOf } from "../pod/testing/simulated-pod.ts";
import { oomScoreAdjustment } from "./oom-score.ts";

const container = (name: string, resources: Container["resources"] = {}): Container => ({ ...main, name, resources });
const requesting = (name: string, memory: string): Container => container(name, { requests: { memory } });

/** The scores of a Pod's containers on a node with 1 GiB. */
function scores(containers: readonly Container[], spec: object = {}, sidecar?: Container): readonly number[] {
  const initContainers = sidecar === undefined ? [] : [{ ...sidecar, restartPolicy: "Always" as const }];
  const pod = podOf({ containers: [...containers], initContainers, ...spec });
  return [...initContainers, ...containers].map((each) => oomScoreAdjustment(pod, each, 2 ** 30));
}

test("kills containers of BestEffort Pods first and those of Guaranteed and node-critical Pods last", () => {
  const equal = { cpu: "1", memory: "1Gi" };
  expect(scores([container("a")])).toEqual([1000]);
  expect(scores([container("a", { requests: equal, limits: equal })])).toEqual([-997]);
  const critical = { priority: 2_000_001_000, priorityClassName: "system-node-critical" };
  expect(scores([container("a")], critical)).toEqual([-997]);
  expect(scores([container("a")], { ...critical, priorityClassName: "system-cluster-critical" })).toEqual([1000]);
});

test("ranks containers of Burstable Pods by their part of the node's memory, between the other classes", () => {
  const containers = [requesting("a", "256Mi"), requesting("b", "1Gi"), requesting("c", "100"), container("d")];
  expect(scores(containers)).toEqual([750, 3, 999, 999]);
});

test("kills a sidecar no earlier than the containers of its Pod", () => {
  const containers = [requesting("a", "512Mi"), requesting("b", "256Mi")];
  expect(scores(containers, {}, requesting("s", "1Mi"))[0]).toBe(750);
  expect(scores(containers, {}, requesting("s", "768Mi"))[0]).toBe(250);
});
