import { isNotFound } from "@keelson/api-machinery";
import { ConfigMap, Deployment, Namespace, ReplicaSet } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { expect, test } from "vitest";
import { clusterControllers, garbageCollection } from "./environment-controllers.ts";

const namespace = "default";

test("garbage collection deletes dependents of a deleted object and empties deleted namespaces", async () => {
  await using environment = await startTestEnvironment({ controllers: [garbageCollection] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const owner = await client.create(ConfigMap, { metadata: { name: "owner", namespace } });
  const { name, uid } = owner.metadata;
  const ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name, uid }];
  await client.create(ConfigMap, { metadata: { name: "owned", namespace, ownerReferences } });
  await using dependent = await deletionOf("owned", namespace);
  await client.delete(ConfigMap, { namespace, name });
  await dependent.seen;

  await client.create(Namespace, { metadata: { name: "brief" } });
  await client.create(ConfigMap, { metadata: { name: "inside", namespace: "brief" } });
  await using emptied = await deletionOf("inside", "brief");
  await client.delete(Namespace, { name: "brief" });
  await emptied.seen;

  async function deletionOf(what: string, where: string) {
    const watch = await client.watch(ConfigMap, { namespace: where, fieldSelector: `metadata.name=${what}` });
    const seen = (async () => {
      for await (const { type } of watch) if (type === "DELETED") return;
      throw new Error("the watch ended");
    })();
    return { seen, [Symbol.asyncDispose]: async () => watch.close() };
  }
});

test("cluster controllers create ReplicaSets for Deployments; an environment without them does nothing", async () => {
  const spec = {
    replicas: 1,
    selector: { matchLabels: { app: "a" } },
    template: { metadata: { labels: { app: "a" } }, spec: { containers: [{ name: "c", image: "i" }] } },
  };
  await using environment = await startTestEnvironment({ controllers: [clusterControllers] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const watch = await client.watch(ReplicaSet, { namespace });
  await client.create(Deployment, { metadata: { name: "d", namespace }, spec: spec });
  for await (const { object } of watch) {
    expect((object as { metadata: { ownerReferences?: unknown } }).metadata.ownerReferences).toMatchObject([{ name: "d" }]);
    break;
  }
  await using bare = await startTestEnvironment({ clock: createVirtualClock() });
  const alone = createClient({ transport: bare.transport(), fieldManager: "test" });
  await alone.create(Namespace, { metadata: { name: "kept" } });
  await alone.delete(Namespace, { name: "kept" });
  expect((await alone.get(Namespace, { name: "kept" })).status?.phase).toBe("Terminating");
  await expect(alone.get(ReplicaSet, { namespace, name: "d" })).rejects.toSatisfy(isNotFound);
});
