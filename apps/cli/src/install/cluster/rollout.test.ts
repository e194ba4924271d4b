import type { Stored } from "@keelson/api-machinery";
import type { DeploymentObject, PodObject } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { podTrouble, rolloutState } from "./rollout.ts";

const deployment = (generation: number, replicas: number, status: DeploymentObject["status"]): Stored<DeploymentObject> =>
  ({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name: "keelson-mpi",
      uid: "1",
      creationTimestamp: "2026-01-01T00:00:00Z",
      resourceVersion: "1",
      generation,
      labels: { "app.kubernetes.io/component": "mpi" },
    },
    spec: { replicas, selector: {}, template: { spec: { containers: [] } } },
    status,
  }) as Stored<DeploymentObject>;

test.each([
  [
    "not observed",
    deployment(2, 1, { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 }),
    0,
    false,
  ],
  [
    "an old Pod is left",
    deployment(1, 1, { observedGeneration: 1, replicas: 2, updatedReplicas: 1, availableReplicas: 2 }),
    1,
    false,
  ],
  [
    "not available",
    deployment(1, 2, { observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 1 }),
    1,
    false,
  ],
  ["done", deployment(1, 2, { observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2 }), 2, true],
  ["scaled to zero", deployment(1, 0, { observedGeneration: 1 }), 0, true],
] as const)("reports the state of a rollout: %s", (_, object, ready, isDone) => {
  expect(rolloutState(object)).toMatchObject({ component: "mpi", ready, isDone });
});

const pod = (status: PodObject["status"]): Stored<PodObject> =>
  ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p" },
    spec: { containers: [] },
    status,
  }) as unknown as Stored<PodObject>;
const container = { name: "operator", restartCount: 0, image: "", imageID: "" };

test.each([
  [
    "a missing image",
    {
      containerStatuses: [
        { ...container, ready: false, state: { waiting: { reason: "ImagePullBackOff", message: "Back-off" } } },
      ],
    },
    "ImagePullBackOff: Back-off",
  ],
  [
    "a crash",
    {
      containerStatuses: [
        {
          ...container,
          ready: false,
          state: { waiting: { reason: "CrashLoopBackOff" } },
          lastState: { terminated: { exitCode: 1, message: "no permissions\n" } },
        },
      ],
    },
    "CrashLoopBackOff (exited with 1: no permissions)",
  ],
  [
    "no node",
    { phase: "Pending", conditions: [{ type: "PodScheduled", status: "False", message: "0/1 nodes are available" }] },
    "not scheduled: 0/1 nodes are available",
  ],
  ["a ready Pod", { containerStatuses: [{ ...container, ready: true, state: { running: {} } }] }, undefined],
] as const)("says what a Pod waits for: %s", (_, status, expected) => {
  expect(podTrouble(pod(status as unknown as PodObject["status"]))).toBe(expected);
});
