import type { PodObject, ResourceRequirements } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { main, podOf, SimulatedPod } from "../pod/testing/simulated-pod.ts";
import { withResources } from "./pod-resources.ts";
import { resizeRefusal } from "./resize-decision.ts";

const small: ResourceRequirements = { requests: { cpu: "100m", memory: "64Mi" }, limits: { cpu: "200m", memory: "128Mi" } };
const large: ResourceRequirements = { requests: { cpu: "300m", memory: "64Mi" }, limits: { cpu: "400m", memory: "128Mi" } };

function pod(resources: ResourceRequirements, generation = 1, restarts = false): PodObject {
  const resizePolicy = [
    { resourceName: "cpu", restartPolicy: restarts ? ("RestartContainer" as const) : ("NotRequired" as const) },
  ];
  return podOf({ containers: [{ ...main, resources, resizePolicy }], restartPolicy: "OnFailure" }, { generation });
}

const allocated = (generation: number) => ({ kind: "allocated", generation }) as const;

test("changes the resources of a running container in place and shows what it has", () => {
  const simulated = new SimulatedPod(pod(small)).started();
  simulated.apply({ kind: "changed", pod: pod(large, 2), resize: allocated(2) });
  expect(simulated.actions).toEqual(["resize main"]);
  const [before] = simulated.status.containerStatuses ?? [];
  expect([before?.allocatedResources, before?.resources]).toEqual([large.requests, small]);
  const inProgress = simulated.status.conditions?.find(({ type }) => type === "PodResizeInProgress");
  expect(inProgress).toMatchObject({ status: "True", observedGeneration: 2 });
  simulated.apply({ kind: "resized", name: "main", attempt: 0, resources: large });
  expect(simulated.effects).toMatchObject([{ kind: "event", reason: "ResizeCompleted" }]);
  expect(simulated.condition("PodResizeInProgress")).toBeUndefined();
  expect(simulated.status.containerStatuses?.[0]).toMatchObject({ resources: large, restartCount: 0 });
});

test("retries a resize that fails, and reports the error once", () => {
  const simulated = new SimulatedPod(pod(small)).started();
  simulated.apply({ kind: "changed", pod: pod(large, 2), resize: allocated(2) });
  const failure = { kind: "resized", name: "main", attempt: 0, resources: large, problem: "too small" } as const;
  expect(simulated.apply(failure).effects).toMatchObject([{ kind: "event", type: "Warning", reason: "ResizeError" }]);
  expect(simulated.status.conditions?.find(({ type }) => type === "PodResizeInProgress")).toMatchObject({
    reason: "Error",
    message: "too small",
  });
  expect(simulated.wait(9_999).actions).toEqual([]);
  expect(simulated.wait(1).actions).toEqual(["resize main"]);
  expect(simulated.apply(failure).effects).toEqual([]);
  simulated.apply({ kind: "changed", pod: pod(small, 3), resize: allocated(3) });
  expect(simulated.effects).toMatchObject([{ kind: "event", reason: "ResizeCompleted" }]);
});

test("restarts a container whose resize policy requires it, without backoff and whatever its exit code", () => {
  const simulated = new SimulatedPod(pod(small, 1, true)).started();
  simulated.apply({ kind: "changed", pod: pod(large, 2, true), resize: allocated(2) });
  expect(simulated.actions).toEqual(["stop main"]);
  expect(simulated.exited(0).actions).toEqual(["start main"]);
  simulated.started();
  expect(simulated.status.containerStatuses?.[0]).toMatchObject({ resources: large, restartCount: 1 });
  expect(simulated.condition("PodResizeInProgress")).toBeUndefined();
});

test("completes the resize of a container that is being started once it runs with its resources", () => {
  const simulated = new SimulatedPod(pod(small));
  simulated.apply({ kind: "changed", pod: pod(large, 2), resize: allocated(2) });
  expect([simulated.effects, simulated.condition("PodResizeInProgress")]).toEqual([[], "True"]);
  expect(simulated.started().actions).toEqual(["resize main"]);
});

test("shows a resize that is not admitted until the Pod asks for what it has", () => {
  const simulated = new SimulatedPod(pod(small)).started();
  const resize = { kind: "pending", generation: 2, reason: "Deferred", message: "full" } as const;
  simulated.apply({ kind: "changed", pod: pod(small, 2), resize });
  expect(simulated.actions).toEqual([]);
  const shown = simulated.status.conditions?.find(({ type }) => type === "PodResizePending");
  expect(shown).toMatchObject({ status: "True", reason: "Deferred", message: "full", observedGeneration: 2 });
  simulated.apply({ kind: "changed", pod: pod(small, 3), resize: { kind: "none" } });
  expect(simulated.condition("PodResizePending")).toBeUndefined();
});

test("runs a Pod with the allocated CPU and memory, and with the desired other resources", () => {
  const desired = pod({ requests: { cpu: "2", memory: "64Mi", "example.com/x": "1" } }, 2);
  expect(withResources(desired, { main: small }).spec.containers[0]?.resources).toEqual({
    requests: { ...small.requests, "example.com/x": "1" },
    limits: small.limits,
  });
  const equivalent = pod({ requests: { cpu: "0.1", memory: "65536Ki" }, limits: { cpu: "0.2", memory: "128Mi" } });
  expect(withResources(equivalent, { main: small })).toBe(equivalent);
});

test.each([
  ["300m", undefined],
  ["900m", { reason: "Deferred", message: "Node didn't have enough resource: cpu, requested: 900, used: 200, capacity: 1000" }],
  ["2", { reason: "Infeasible", message: "Node didn't have enough capacity: cpu, requested: 2000, capacity: 1000" }],
])("decides about a request of %s on a node with one CPU", (cpu, expected) => {
  const others = [pod({ requests: { cpu: "200m" } })];
  expect(resizeRefusal(pod({ requests: { cpu } }), others, { cpu: "1", memory: "1Gi" })).toEqual(expected);
});
