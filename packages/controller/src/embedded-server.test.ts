import { isConflict, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createManager } from "./manager/create-manager.ts";
import { EventsEvent, Lease } from "@keelson/api-machinery/kinds";
import type { Manager } from "./manager/manager.ts";
import { defineController } from "./reconcile/define-controller.ts";
import { type ConfigMap, configMapType } from "./testing/kinds.ts";

interface Service extends KubernetesObject {
  spec?: unknown;
}
const serviceAccountType: ResourceType<Service> = {
  group: "",
  version: "v1",
  kind: "ServiceAccount",
  plural: "serviceaccounts",
  scope: "Namespaced",
};
const namespaceType: ResourceType = { group: "", version: "v1", kind: "Namespace", plural: "namespaces", scope: "Cluster" };

let environment: TestEnvironment;
let client: Client;
let manager: Manager | undefined;

beforeEach(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(namespaceType, { metadata: { name: "a" } }).catch(() => {});
});
afterEach(async () => {
  await manager?.stop();
  await environment.stop();
});

/** Resolves when the cache reaches the expected state. */
function shown<T extends KubernetesObject>(type: ResourceType<T>, isIt: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    if (isIt()) return resolve();
    const stop = manager?.onChange(type, () => {
      if (!isIt()) return;
      stop?.();
      resolve();
    });
  });
}

describe("manager on the embedded server", () => {
  test("reconciles every object with server-side apply, never concurrently, and holds and releases its lease", async () => {
    const writes = new Map<string, number>();
    const controller = defineController({
      name: "accounts",
      for: serviceAccountType,
      owns: [configMapType],
      maxConcurrentReconciles: 4,
      async reconcile({ namespace, name }, { cache, client: own, events }) {
        const owner = cache.get(serviceAccountType, { namespace, name });
        if (
          owner === undefined ||
          owner.metadata.namespace !== "a" ||
          cache.get(configMapType, { namespace, name }) !== undefined
        )
          return;
        writes.set(name, (writes.get(name) ?? 0) + 1);
        const ownerReferences = [
          { apiVersion: "v1", kind: "ServiceAccount", name, uid: owner.metadata.uid ?? "", controller: true },
        ];
        await own.apply(configMapType, { metadata: { namespace: "a", name, ownerReferences }, data: { for: name } });
        events.event(owner, { type: "Normal", reason: "Created", note: "created the map" });
      },
    });
    manager = createManager({
      client,
      controllers: [controller],
      name: "test",
      leaderElection: { namespace: "a", name: "lease" },
    });
    await manager.start();
    const names = Array.from({ length: 50 }, (_, index) => `sa-${index}`);
    await Promise.all(names.map((name) => client.create(serviceAccountType, { metadata: { namespace: "a", name } })));
    const mine = (): readonly unknown[] =>
      (manager?.cache.list(configMapType, { namespace: "a" }) ?? []).filter((map) => (map as ConfigMap).data?.["for"]);
    await shown(configMapType, () => mine().length === 50);
    expect([...writes.values()]).toEqual(names.map(() => 1));
    expect((await client.get(Lease, { namespace: "a", name: "lease" })).spec?.holderIdentity).not.toBe("");
    await manager.stop();
    expect((await client.get(Lease, { namespace: "a", name: "lease" })).spec?.holderIdentity ?? "").toBe("");
    const events = await client.list(EventsEvent, { namespace: "a" });
    expect(events.items.filter((event) => event.reason === "Created").length).toBe(50);
  });

  test("the cache follows creates, updates and deletes, and a stale update is a conflict", async () => {
    manager = createManager({ client, controllers: [], reads: [{ type: configMapType }], name: "test" });
    await manager.startCaches();
    const key = { namespace: "a", name: "c" };
    const created = await client.create(configMapType, { metadata: key, data: { n: "1" } });
    await shown(configMapType, () => manager?.cache.get(configMapType, key)?.data?.["n"] === "1");
    await client.patch(configMapType, key, { type: "merge", body: { data: { n: "2" } } });
    await shown(configMapType, () => manager?.cache.get(configMapType, key)?.data?.["n"] === "2");
    await expect(client.update(configMapType, { ...created, data: { n: "3" } })).rejects.toSatisfy(isConflict);
    await client.delete(configMapType, key);
    await shown(configMapType, () => manager?.cache.get(configMapType, key) === undefined);
  });
});
