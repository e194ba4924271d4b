import type { DeepReadonly } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, silentLogger } from "@keelson/controller";
import { expect, test } from "vitest";
import { startFakeNode } from "../testing/fake-node.ts";
import { createWorkloadControllers } from "../workload-controllers.ts";
import { ReplicationController, type ReplicationControllerObject } from "./replication-controller.ts";

const namespace = "default";

test("a ReplicationController creates its Pods, adopts orphans, reports its status and scales down", async () => {
  await using environment = await startTestEnvironment();
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const manager = createManager({
    name: "kube-controller-manager",
    client,
    clock: systemClock,
    logger: silentLogger,
    controllers: createWorkloadControllers(),
  });
  await manager.start();
  await using _node = await startFakeNode(client);
  const labels = { app: "a" };
  const containers = [{ name: "c", image: "i" }];
  await client.create(Pod, { metadata: { namespace, name: "orphan", labels }, spec: { containers } });
  await client.create(ReplicationController, {
    metadata: { namespace, name: "rc" },
    spec: { replicas: 2, selector: labels, template: { metadata: { labels }, spec: { containers } } },
  });
  const status = async (): Promise<DeepReadonly<ReplicationControllerObject>["status"]> =>
    (await client.get(ReplicationController, { namespace, name: "rc" })).status;
  await expect.poll(status).toEqual({
    replicas: 2,
    fullyLabeledReplicas: 2,
    readyReplicas: 2,
    availableReplicas: 2,
    observedGeneration: 1,
  });
  const { metadata } = await client.get(Pod, { namespace, name: "orphan" });
  expect(metadata.ownerReferences).toMatchObject([{ apiVersion: "v1", kind: "ReplicationController", name: "rc" }]);
  await client.patch(ReplicationController, { namespace, name: "rc" }, { type: "merge", body: { spec: { replicas: 0 } } });
  await expect.poll(async () => (await client.list(Pod, { namespace })).items.length).toBe(0);
  await expect.poll(status).toEqual({ replicas: 0, observedGeneration: 2 });
  await manager.stop();
});
