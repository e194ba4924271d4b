import { controllerReference, type DeepReadonly, type OwnerReference } from "@keelson/api-machinery";
import { Deployment, Pod, PodDisruptionBudget, ReplicaSet } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import { decideDisruption, type ScaledObject } from "./disruption-decision.ts";

/** A Deployment with 4 replicas, its ReplicaSet, and ready Pods with these names, all selected by the budget. */
function start(spec: object, names: readonly string[] = ["a", "b", "c"]): World {
  const world = new World();
  const deployment = world.create(Deployment, { metadata: { name: "d" }, spec: { replicas: 4, selector: {}, template: {} } });
  const replicaSet = world.create(ReplicaSet, {
    metadata: { name: "rs", ownerReferences: [controllerReference(deployment)] },
    spec: { replicas: 9, selector: {} },
  });
  for (const name of names) {
    const ownerReferences = [controllerReference(replicaSet)];
    world.create(Pod, { metadata: { name, ownerReferences }, spec: { containers: [] } });
    world.setPod(name, "Running", true);
  }
  world.create(PodDisruptionBudget, { metadata: { name: "budget" }, spec: { selector: {}, ...spec } });
  return world;
}

function scaledIn(world: World) {
  return ({ kind, name, uid }: DeepReadonly<OwnerReference>): DeepReadonly<ScaledObject> | undefined => {
    const all = kind === "Deployment" ? world.list(Deployment) : kind === "ReplicaSet" ? world.list(ReplicaSet) : [];
    return all.find(({ metadata }) => metadata.name === name && metadata.uid === uid);
  };
}

const decide = (world: World) =>
  decideDisruption(
    { budget: world.get(PodDisruptionBudget, "budget"), pods: world.list(Pod), scaledBy: scaledIn(world) },
    world.now,
  );
const settle = (world: World) => {
  const { requeueAfterMs } = world.settle(() => decide(world));
  return { status: world.get(PodDisruptionBudget, "budget").status, requeueAfterMs };
};

describe("a PodDisruptionBudget", () => {
  test.each([
    // Percentages and maxUnavailable refer to the Deployment's 4 replicas, not to the 3 existing Pods.
    [{ minAvailable: 2 }, { expectedPods: 3, desiredHealthy: 2, disruptionsAllowed: 1 }],
    [{ minAvailable: "50%" }, { expectedPods: 4, desiredHealthy: 2, disruptionsAllowed: 1 }],
    [{ minAvailable: "51%" }, { expectedPods: 4, desiredHealthy: 3, disruptionsAllowed: 0 }],
    [{ maxUnavailable: 2 }, { expectedPods: 4, desiredHealthy: 2, disruptionsAllowed: 1 }],
    [{ maxUnavailable: "30%" }, { expectedPods: 4, desiredHealthy: 2, disruptionsAllowed: 1 }],
    [{ maxUnavailable: 9 }, { expectedPods: 4, desiredHealthy: 0, disruptionsAllowed: 3 }],
    [{}, { expectedPods: 0, desiredHealthy: 0, disruptionsAllowed: 0 }],
  ])("with %j computes expected Pods and allowed disruptions", (spec, expected) => {
    const { status } = settle(start(spec));
    expect(status).toMatchObject({ ...expected, currentHealthy: 3, observedGeneration: 1 });
    const isAllowed = expected.disruptionsAllowed > 0;
    expect(status?.conditions).toMatchObject([
      {
        type: "DisruptionAllowed",
        status: isAllowed ? "True" : "False",
        reason: isAllowed ? "SufficientPods" : "InsufficientPods",
      },
    ]);
  });

  test("counts neither unready nor terminating Pods as healthy", () => {
    const world = start({ minAvailable: 1 });
    world.setPod("a", "Running", false);
    world.delete(Pod, "b", true);
    expect(settle(world).status).toMatchObject({ currentHealthy: 1, expectedPods: 3, disruptionsAllowed: 0 });
  });

  test("does not expect Pods without a controller", () => {
    const world = start({ maxUnavailable: 1 }, []);
    world.create(Pod, { metadata: { name: "alone" }, spec: { containers: [] } });
    world.setPod("alone", "Running", true);
    expect(settle(world).status).toMatchObject({ currentHealthy: 1, expectedPods: 0, disruptionsAllowed: 0 });
  });

  test("allows no disruptions and reports SyncFailed if the expected scale is unknown", () => {
    const world = start({ maxUnavailable: 1 });
    settle(world);
    const ownerReferences = [{ apiVersion: "batch/v1", kind: "Job", name: "j", uid: "other", controller: true }];
    world.create(Pod, { metadata: { name: "of-a-job", ownerReferences }, spec: { containers: [] } });
    const { status } = settle(world);
    expect(status).toMatchObject({ disruptionsAllowed: 0, expectedPods: 4 });
    expect(status?.conditions).toMatchObject([
      { status: "False", reason: "SyncFailed", message: 'found no controllers for pod "of-a-job"' },
    ]);
    // An absolute minAvailable does not depend on the scale.
    world.change(PodDisruptionBudget, "budget", { spec: { maxUnavailable: null, minAvailable: 1 } });
    expect(settle(world).status).toMatchObject({ disruptionsAllowed: 2, expectedPods: 4, observedGeneration: 2 });
  });

  test("counts a Pod with a granted eviction as disrupted until it is deleted, for at most two minutes", () => {
    const world = start({ minAvailable: 1 });
    settle(world);
    const since = new Date(world.now).toISOString();
    world.change(PodDisruptionBudget, "budget", { status: { disruptedPods: { a: since, b: since } } });
    world.delete(Pod, "b", true);
    world.now += 20_000;
    const { status, requeueAfterMs } = settle(world);
    expect(status).toMatchObject({ currentHealthy: 1, disruptedPods: { a: since }, disruptionsAllowed: 0 });
    expect(requeueAfterMs).toBe(100_000);
    world.now += 100_000;
    expect(settle(world).status).toMatchObject({ currentHealthy: 2, disruptionsAllowed: 1 });
    expect(world.get(PodDisruptionBudget, "budget").status).not.toHaveProperty("disruptedPods");
    expect(world.events[0]).toBe("NotDeleted: Pod was expected by PDB default/budget to be deleted but it wasn't");
  });

  test("writes only changes, and keeps the transition time of an unchanged condition", () => {
    const world = start({ minAvailable: 1 });
    const before = settle(world).status?.conditions?.[0]?.lastTransitionTime;
    world.now += 60_000;
    expect(decide(world).writes).toEqual([]);
    world.setPod("c", "Failed");
    expect(settle(world).status?.conditions?.[0]?.lastTransitionTime).toBe(before);
    world.setPod("b", "Failed");
    expect(settle(world).status?.conditions?.[0]?.lastTransitionTime).not.toBe(before);
  });
});
