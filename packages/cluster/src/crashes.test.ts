import { type DeepReadonly, isConditionTrue } from "@keelson/api-machinery";
import { Deployment, Job, Node, Pod, type PodObject, ReplicaSet } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { createManager, silentLogger } from "@keelson/controller";
import { describe, expect, test } from "vitest";
import { startFakeNode } from "./testing/fake-node.ts";
import { createWorkloadControllers } from "./workload-controllers.ts";

const namespace = "default";

/** Watches Pods until `holds` returns true, and returns the uid of every Pod seen so far. */
async function podsUntil(client: Client, holds: (present: ReadonlyMap<string, DeepReadonly<PodObject>>) => boolean) {
  const ever = new Set<string>();
  const present = new Map<string, DeepReadonly<PodObject>>();
  const watch = await client.watch(Pod, { namespace, resourceVersion: "0" });
  try {
    for await (const { type, object } of watch) {
      const { uid = "" } = object.metadata;
      ever.add(uid);
      if (type === "DELETED") present.delete(uid);
      else present.set(uid, object);
      if (holds(present)) return ever;
    }
    return ever;
  } finally {
    watch.close();
  }
}

function startControllers(client: Client) {
  const manager = createManager({
    name: "kube-controller-manager",
    client,
    clock: systemClock,
    logger: silentLogger,
    controllers: createWorkloadControllers(),
    gracefulShutdownTimeoutMs: 0,
  });
  return manager;
}

const template = (restartPolicy?: string) => ({
  metadata: { labels: { app: "a" } },
  spec: { containers: [{ name: "main", image: "app" }], ...(restartPolicy ? { restartPolicy } : {}) },
});

describe("controllers that stop or fail at any write", () => {
  test.each([1, 2, 3, 5, 8, 13])("create and count each Pod of a Job exactly once when write %d is refused", async (nth) => {
    const environment = await startTestEnvironment({ clock: systemClock });
    await using _stop = environment;
    const client = createClient({ transport: environment.transport(), fieldManager: "test" });
    await client.create(Job, {
      metadata: { name: "j", namespace },
      spec: { completions: 4, parallelism: 4, completionMode: "Indexed", template: template("Never") as never },
    });
    // The nth write of the controllers fails once; they must finish what was half done.
    let writes = 0;
    const undo = environment.faults.failNext({
      reason: "InternalError",
      times: 1,
      when: ({ method, path, userAgent }) =>
        userAgent === "kube-controller-manager" && method !== "GET" && !path.includes("/events") && ++writes === nth,
    });
    const own = createClient({ transport: environment.transport(), fieldManager: "kube-controller-manager" });
    const manager = startControllers(own);
    await manager.start();
    await using _node = await startFakeNode(client, { fate: () => "succeed" });
    const watch = await client.watch(Job, { namespace, resourceVersion: "0" });
    for await (const { object } of watch) if (isConditionTrue(object.status?.conditions ?? [], "Complete")) break;
    undo();
    await manager.stop();
    expect((await client.list(Pod, { namespace })).items).toHaveLength(4);
    expect((await client.get(Job, { namespace, name: "j" })).status).toMatchObject({ succeeded: 4, completedIndexes: "0-3" });
    expect(environment.faults.injected).toBe(1);
  });

  test("continue a rollout that was interrupted, without surplus Pods", async () => {
    const environment = await startTestEnvironment({ clock: systemClock });
    await using _stop = environment;
    const client = createClient({ transport: environment.transport(), fieldManager: "test" });
    await using _node = await startFakeNode(client);
    await client.create(Deployment, {
      metadata: { name: "d", namespace },
      spec: { replicas: 6, selector: { matchLabels: { app: "a" } }, template: template() as never },
    });
    const ever = new Set<string>();
    for (let life = 0; life < 4; life++) {
      const manager = startControllers(
        createClient({ transport: environment.transport(), fieldManager: "kube-controller-manager" }),
      );
      await manager.start();
      const wanted = life < 3 ? life + 1 : 6;
      for (const uid of await podsUntil(client, (present) => present.size >= wanted)) ever.add(uid);
      await manager.stop();
    }
    expect((await client.list(Pod, { namespace })).items).toHaveLength(6);
    expect(ever.size).toBe(6);
    expect((await client.list(ReplicaSet, { namespace })).items).toHaveLength(1);
    expect((await client.list(Node)).items).toHaveLength(1);
  });

  test("report refused Pods in the ReplicaSet and the Deployment until they are allowed", async () => {
    const environment = await startTestEnvironment({ clock: systemClock });
    await using _stop = environment;
    const client = createClient({ transport: environment.transport(), fieldManager: "test" });
    const allow = environment.faults.failNext({
      reason: "Forbidden",
      message: "exceeded quota",
      times: Number.POSITIVE_INFINITY,
      when: ({ method, path }) => method === "POST" && path.endsWith("/pods"),
    });
    const manager = startControllers(
      createClient({ transport: environment.transport(), fieldManager: "kube-controller-manager" }),
    );
    await manager.start();
    const watch = await client.watch(Deployment, { namespace });
    await client.create(Deployment, {
      metadata: { name: "d", namespace },
      spec: { replicas: 1, selector: { matchLabels: { app: "a" } }, template: template() as never },
    });
    const failure = (object: DeepReadonly<{ status?: { conditions?: readonly { type?: string; reason?: string }[] } }>) =>
      object.status?.conditions?.find(({ type }) => type === "ReplicaFailure")?.reason;
    for await (const { object } of watch) if (failure(object) === "FailedCreate") break;
    allow();
    const again = await client.watch(Deployment, { namespace, resourceVersion: "0" });
    for await (const { object } of again) if (object.status?.updatedReplicas === 1 && failure(object) === undefined) break;
    again.close();
    await manager.stop();
  });
});
