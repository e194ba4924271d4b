import type { NodeObject } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import type { CachedPod } from "../workload/pod-state.ts";
import type { Cached } from "../workload/write.ts";
import { type Placement, scheduleInSteps } from "./scheduler-decision.ts";
import { workPerStep } from "./work-meter.ts";

const nodeCount = 20;
const podsPerNode = 110;

/** Counts how often the scheduler reads what each Pod requests, and when it started. */
class ReadCounter {
  requests = 0;
  starts = 0;

  pod(name: string, priority: number, nodeName?: string): CachedPod {
    const containers = [{ name: "c", image: "i", resources: { requests: { cpu: "1" } } }];
    const onRequests = (): void => {
      this.requests += 1;
    };
    const onStart = (): void => {
      this.starts += 1;
    };
    return {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, uid: name },
      spec: {
        priority,
        ...(nodeName === undefined ? {} : { nodeName }),
        get containers() {
          onRequests();
          return containers;
        },
      },
      status: {
        get startTime() {
          onStart();
          return "2026-01-01T00:00:00Z";
        },
      },
    };
  }
}

test("a step ends after a number of examined nodes and Pods, also within the search for victims", () => {
  const counter = new ReadCounter();
  const names = Array.from({ length: nodeCount }, (_, index) => `n${index}`);
  const nodes = names.map((name): Cached<NodeObject> => {
    const allocatable = { cpu: `${podsPerNode}`, pods: "1000" };
    return {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name },
      status: { allocatable, conditions: [{ type: "Ready", status: "True" }] },
    };
  });
  const running = names.flatMap((node) =>
    Array.from({ length: podsPerNode }, (_, index) => counter.pod(`${node}-${index}`, 0, node)),
  );
  const pending = Array.from({ length: 5 }, (_, index) => counter.pod(`urgent-${index}`, 10));
  const pods = [...running, ...pending];
  const steps = scheduleInSteps({ nodes, pods, claims: [], classes: [], volumes: [], assumed: new Map() });
  const readsOfSteps: number[] = [];
  let placements: readonly Placement[] | undefined;
  while (placements === undefined) {
    const before = counter.requests;
    const step = steps.next();
    readsOfSteps.push(counter.requests - before);
    if (step.done === true) placements = step.value;
  }
  expect(placements.map(({ kind }) => kind)).toEqual(pending.map(() => "preempt"));
  // Whether a Pod fits and what it adds to a load is read four times.
  expect(Math.max(...readsOfSteps)).toBeLessThanOrEqual(4 * workPerStep);
  expect(readsOfSteps.length).toBeGreaterThan((pending.length * nodeCount * podsPerNode) / workPerStep);
  // Each Pod is ranked once, not in each comparison.
  expect(counter.starts).toBeLessThanOrEqual(pods.length);
});
