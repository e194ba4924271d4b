import { isNotFound, type ResourceType } from "@keelson/api-machinery";
import { ConfigMap, Namespace, ServiceAccount } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { type CacheOptions, silentLogger } from "@keelson/controller";
import { expect, test } from "vitest";
import { startCluster } from "./start-cluster.ts";

/** Starts a cluster on its own API server. `listed` are the kinds that its controllers list. */
async function start(
  options: CacheOptions = {},
): Promise<{ readonly client: Client; readonly listed: ReadonlySet<string> } & AsyncDisposable> {
  const environment = await startTestEnvironment({ clock: systemClock });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const listed = new Set<string>();
  const list: Client["list"] = (type, listOptions) => {
    listed.add(type.kind);
    return client.list(type, listOptions);
  };
  const counted = new Proxy(client, { get: (target, name) => (name === "list" ? list : bound(target, name)) });
  const kinds = {
    list: () =>
      environment.resources
        .list()
        .filter(
          (resource) =>
            resource.verbs.includes("watch") && resource.verbs.includes("delete") && resource.group !== "events.k8s.io",
        ),
    onChange: (listener: () => void) => environment.resources.onChange(listener),
  };
  const cluster = await startCluster({ client: counted, kinds, clock: systemClock, log: silentLogger, ...options });
  return {
    client,
    listed,
    async [Symbol.asyncDispose]() {
      await cluster.stop();
      await environment.stop();
    },
  };
}

function bound(target: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(target, name);
  return typeof value === "function" ? (value.bind(target) as unknown) : value;
}

async function createOwned(
  client: Client,
  name: string,
  owner?: { readonly name: string; readonly uid: string },
  namespace = "default",
): Promise<{ name: string; uid: string }> {
  const ownerReferences = owner ? [{ apiVersion: "v1", kind: "ConfigMap", ...owner, blockOwnerDeletion: true }] : [];
  const { metadata } = await client.create(ConfigMap, { metadata: { name, namespace, ownerReferences } });
  return { name, uid: metadata.uid ?? "" };
}

/** Resolves when the object is deleted. */
async function deleted(client: Client, type: ResourceType, name: string, namespace?: string): Promise<void> {
  const watch = await client.watch(type, { namespace, fieldSelector: `metadata.name=${name}` });
  try {
    await client.get(type, { name, namespace });
    for await (const event of watch) if (event.type === "DELETED") return;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  } finally {
    watch.close();
  }
}

test("reads the initial state of all kinds as streams, and still collects garbage", async () => {
  await using cluster = await start({ initialList: "stream" });
  const { client } = cluster;
  const owner = await createOwned(client, "owner");
  await createOwned(client, "dependent", owner);
  await client.delete(ConfigMap, { name: "owner", namespace: "default" });
  await deleted(client, ConfigMap, "dependent", "default");
  expect([...cluster.listed]).toEqual(["Namespace"]);
});

test("background deletion deletes all transitive dependents", async () => {
  await using cluster = await start();
  const { client } = cluster;
  const top = await createOwned(client, "top");
  const middle = await createOwned(client, "middle", top);
  await createOwned(client, "leaf", middle);
  await createOwned(client, "free");
  await client.delete(ConfigMap, { name: "top", namespace: "default" }, { propagationPolicy: "Background" });
  await deleted(client, ConfigMap, "leaf", "default");
  expect((await client.list(ConfigMap, { namespace: "default" })).items.map((item) => item.metadata.name)).toEqual(["free"]);
});

test("foreground deletion keeps the owner until its blocking dependents are deleted", async () => {
  await using cluster = await start();
  const { client } = cluster;
  const top = await createOwned(client, "top");
  await createOwned(client, "leaf", top);
  await client.patch(
    ConfigMap,
    { name: "leaf", namespace: "default" },
    { type: "merge", body: { metadata: { finalizers: ["example.com/hold"] } } },
  );
  await client.delete(ConfigMap, { name: "top", namespace: "default" }, { propagationPolicy: "Foreground" });
  const watch = await client.watch(ConfigMap, {
    namespace: "default",
    fieldSelector: "metadata.name=leaf",
    resourceVersion: "0",
  });
  for await (const { object } of watch) if (object.metadata.deletionTimestamp !== undefined) break;
  expect((await client.get(ConfigMap, { name: "top", namespace: "default" })).metadata.finalizers).toEqual([
    "foregroundDeletion",
  ]);
  await client.patch(
    ConfigMap,
    { name: "leaf", namespace: "default" },
    { type: "merge", body: { metadata: { finalizers: null } } },
  );
  await deleted(client, ConfigMap, "top", "default");
});

/** Creates ConfigMaps that own each other in a circle, and returns their names. */
async function createCircle(client: Client, size: number): Promise<readonly string[]> {
  const names = Array.from({ length: size }, (_, index) => `ring-${index}`);
  const uids = new Map<string, string>();
  for (const name of names) uids.set(name, (await createOwned(client, name)).uid);
  for (const [index, name] of names.entries()) {
    const owner = names[(index + 1) % size] ?? "";
    const ownerReferences = [
      { apiVersion: "v1", kind: "ConfigMap", name: owner, uid: uids.get(owner), blockOwnerDeletion: true },
    ];
    await client.patch(ConfigMap, { name, namespace: "default" }, { type: "merge", body: { metadata: { ownerReferences } } });
  }
  return names;
}

test.each(["Foreground", "Background"] as const)("%s deletion of a member deletes a circle of owners", async (policy) => {
  await using cluster = await start();
  const { client } = cluster;
  const names = await createCircle(client, 3);
  await client.delete(ConfigMap, { name: names[0] ?? "", namespace: "default" }, { propagationPolicy: policy });
  await Promise.all(names.map((name) => deleted(client, ConfigMap, name, "default")));
});

test("foreground deletion of all members deletes a circle of owners", async () => {
  await using cluster = await start();
  const { client } = cluster;
  const names = await createCircle(client, 4);
  const deletions = names.map((name) =>
    client.delete(ConfigMap, { name, namespace: "default" }, { propagationPolicy: "Foreground" }),
  );
  await Promise.allSettled(deletions);
  await Promise.all(names.map((name) => deleted(client, ConfigMap, name, "default")));
});

test("orphaning deletes the owner and keeps dependents without the reference", async () => {
  await using cluster = await start();
  const { client } = cluster;
  const top = await createOwned(client, "top");
  await createOwned(client, "leaf", top);
  await client.delete(ConfigMap, { name: "top", namespace: "default" }, { propagationPolicy: "Orphan" });
  await deleted(client, ConfigMap, "top", "default");
  expect((await client.get(ConfigMap, { name: "leaf", namespace: "default" })).metadata.ownerReferences ?? []).toEqual([]);
});

test("an object whose owner has the same name and another uid is garbage", async () => {
  await using cluster = await start();
  const { client } = cluster;
  await createOwned(client, "top");
  await createOwned(client, "leaf", { name: "top", uid: "00000000-0000-4000-8000-000000000000" });
  await deleted(client, ConfigMap, "leaf", "default");
});

test("a namespace gets a default service account, and is deleted with everything in it", async () => {
  await using cluster = await start();
  const { client } = cluster;
  await client.create(Namespace, { metadata: { name: "short" } });
  await createOwned(client, "kept", undefined, "short");
  const accounts = await client.watch(ServiceAccount, { namespace: "short", resourceVersion: "0" });
  for await (const { object } of accounts) if (object.metadata.name === "default") break;
  await client.delete(Namespace, { name: "short" });
  await deleted(client, Namespace, "short");
  expect((await client.list(ConfigMap, { namespace: "short" })).items).toEqual([]);
});
