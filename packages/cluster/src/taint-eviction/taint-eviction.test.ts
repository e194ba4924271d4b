import { Node, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { createTaintEvictionController, decideTaintedPod } from "./taint-eviction.ts";

const taint = { key: "broken", value: "yes", effect: "NoExecute" };
const toleration = { key: "broken", operator: "Equal", value: "yes", effect: "NoExecute" } as const;
type Tolerations = NonNullable<PodObject["spec"]["tolerations"]>;
const podWith = (tolerations: Tolerations, isTerminating = false): PodObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "p", ...(isTerminating ? { deletionTimestamp: "2026-01-01T00:00:10Z" } : {}) },
  spec: { nodeName: "n", containers: [], tolerations },
});

test.each([
  [[], [], { kind: "keep" }],
  [[], [taint], { kind: "evict" }],
  [[toleration], [taint], { kind: "keep" }],
  [[{ operator: "Exists" }], [taint], { kind: "keep" }],
  [[toleration], [taint, { ...taint, key: "other" }], { kind: "evict" }],
  [[{ ...toleration, tolerationSeconds: 30 }], [taint], { kind: "wait", ms: 10_000 }],
  [[{ ...toleration, tolerationSeconds: 20 }], [taint], { kind: "evict" }],
  [[{ ...toleration, tolerationSeconds: 0 }], [taint], { kind: "evict" }],
  [
    [
      { ...toleration, tolerationSeconds: 60 },
      { key: "other", operator: "Exists", tolerationSeconds: 25 },
    ],
    [taint, { ...taint, key: "other" }],
    { kind: "wait", ms: 5_000 },
  ],
] as const)("a Pod with tolerations %j on a node with taints %j for 20 s: %j", (tolerations, taints, decision) => {
  expect(decideTaintedPod(podWith(tolerations as unknown as Tolerations), taints, 1_000, 21_000)).toEqual(decision);
});

test("a terminating Pod is not deleted again", () => {
  expect(decideTaintedPod(podWith([], true), [taint], 0, 0)).toEqual({ kind: "keep" });
});

test("Pods are evicted as soon as they do not tolerate a taint of their node", async () => {
  const clock = createVirtualClock();
  const environment = await startTestEnvironment({ clock });
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const manager = createManager({
    name: "test",
    client,
    clock,
    logger: silentLogger,
    controllers: [createTaintEvictionController()],
  });
  await manager.start();
  onTestFinished(() => manager.stop());
  await client.create(Node, { metadata: { name: "n" }, spec: {} });
  const create = (name: string, tolerations: Tolerations) =>
    client.create(Pod, {
      metadata: { namespace: "default", name, finalizers: ["test/kept"] },
      spec: { nodeName: "n", containers: [{ name: "c", image: "i" }], tolerations },
    });
  await create("briefly", [{ ...toleration, tolerationSeconds: 60 }]);
  await create("intolerant", []);
  const get = (name: string) => client.get(Pod, { namespace: "default", name });
  const isDeleted = async (name: string): Promise<boolean> => (await get(name)).metadata.deletionTimestamp !== undefined;
  await client.patch(Node, { name: "n" }, { type: "merge", body: { spec: { taints: [taint] } } });
  await expect.poll(() => isDeleted("intolerant")).toBe(true);
  expect((await get("intolerant")).status?.conditions).toContainEqual(
    expect.objectContaining({
      type: "DisruptionTarget",
      status: "True",
      reason: "DeletionByTaintManager",
      lastTransitionTime: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T/) as unknown,
    }),
  );
  await clock.advance(59_000);
  // Once a Pod that comes later has been evicted, the controller has handled the time until now.
  await create("late", []);
  await expect.poll(() => isDeleted("late")).toBe(true);
  expect(await isDeleted("briefly")).toBe(false);
  await expect
    .poll(async () => {
      await clock.advance(2_000);
      return isDeleted("briefly");
    })
    .toBe(true);
});
