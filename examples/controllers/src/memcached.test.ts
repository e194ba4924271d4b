import { isNotFound, type ResourceType } from "@keelson/api-machinery";
import { Service, StatefulSet } from "@keelson/api-machinery/kinds";
import { garbageCollection } from "@keelson/cluster/testing";
import { expect, test } from "vitest";
import { Memcached, memcachedController } from "./memcached.ts";
import { runController } from "./testing/run-controller.ts";

const key = { namespace: "default", name: "sessions" };

test("runs a StatefulSet of the requested size, restores it, and reports its ready replicas", async () => {
  await using running = await runController(memcachedController, [Memcached]);
  const { client } = running;
  await client.create(Memcached, { metadata: key, spec: { replicas: 2, memoryMiB: 64 } });
  const replicas = (): Promise<number | undefined> =>
    client.get(StatefulSet, key).then(
      ({ spec }) => spec?.replicas,
      () => undefined,
    );
  await expect.poll(replicas).toBe(2);
  expect((await client.get(Service, key)).spec?.clusterIP).toBe("None");

  // Another user scales it; the controller owns the field and restores it.
  await client.patch(StatefulSet, key, { type: "merge", body: { spec: { replicas: 5 } } }, { fieldManager: "another-user" });
  await expect.poll(replicas).toBe(2);

  const status = { replicas: 2, readyReplicas: 1 };
  await client.patch(StatefulSet, key, { type: "merge", body: { status } }, { subresource: "status" });
  await expect.poll(async () => (await client.get(Memcached, key)).status?.readyReplicas).toBe(1);
});

test("its StatefulSet and Service are deleted with it", async () => {
  await using running = await runController(memcachedController, [Memcached], [garbageCollection]);
  const { client } = running;
  await client.create(Memcached, { metadata: key, spec: { replicas: 1, memoryMiB: 64 } });
  const exists = (type: ResourceType): Promise<boolean> =>
    client.get(type, key).then(
      () => true,
      (error: unknown) => !isNotFound(error),
    );
  await expect.poll(() => exists(StatefulSet)).toBe(true);
  await client.delete(Memcached, key);
  await expect.poll(() => exists(StatefulSet)).toBe(false);
  await expect.poll(() => exists(Service)).toBe(false);
});
