import type { ResourceType } from "@keelson/api-machinery";
import { ConfigMap, Event, Namespace, type NamespaceObject } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient, type TypedWatch } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { type GarbageCollector, startGarbageCollector } from "../garbage-collector/garbage-collector.ts";
import type { KindSource, ObjectMonitor } from "../garbage-collector/object-monitor.ts";
import { storedKinds } from "../stored-kinds.ts";
import { startNamespaceController } from "./namespace-controller.ts";

/** Runs garbage collection and namespaces with the served kinds and `more`. */
async function start(
  clock: Clock,
  more: (environment: TestEnvironment) => Partial<KindSource>,
  onCollector: (collector: GarbageCollector) => void = () => {},
): Promise<Client> {
  const environment = await startTestEnvironment({ clock });
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const kinds = { ...storedKinds(environment.resources), ...more(environment) };
  const options = { client, kinds, clock, random: Math.random, log: silentLogger };
  const collector = startGarbageCollector(options);
  onCollector(collector);
  const namespaces = startNamespaceController({ ...options, collector });
  onTestFinished(async () => {
    await namespaces.stop();
    await collector.stop();
  });
  return client;
}

const watchNamespace = (client: Client): Promise<TypedWatch<NamespaceObject>> =>
  client.watch(Namespace, { fieldSelector: "metadata.name=a" });

/** Resolves with the message of a condition once it is True, or with `DELETED`. */
async function becomes(watch: TypedWatch<NamespaceObject>, until: string): Promise<string | undefined> {
  try {
    for await (const { type, object } of watch) {
      if (type === "DELETED") return until === "DELETED" ? type : undefined;
      const found = object.status?.conditions?.find((each) => each.type === until && each.status === "True");
      if (found !== undefined) return found.message;
    }
    return undefined;
  } finally {
    watch.close();
  }
}

test("a namespace is not finalized while the kinds of a group version are unknown", async () => {
  let stale = ["example.com/v1"];
  const listeners = new Set<() => void>();
  const client = await start(systemClock, () => ({
    staleVersions: () => stale,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  }));
  await client.create(Namespace, { metadata: { name: "a" } });
  const failure = becomes(await watchNamespace(client), "NamespaceDeletionDiscoveryFailure");
  await client.delete(Namespace, { name: "a" });
  expect(await failure).toBe(
    "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: " +
      "example.com/v1: stale GroupVersion discovery: example.com/v1",
  );
  const deleted = becomes(await watchNamespace(client), "DELETED");
  stale = [];
  for (const listener of listeners) listener();
  expect(await deleted).toBe("DELETED");
});

test("a namespace is finalized without its Events, which the graph does not contain", async () => {
  let monitor: ObjectMonitor | undefined;
  const client = await start(
    systemClock,
    () => ({}),
    (collector) => void (monitor = collector.monitor),
  );
  await client.create(Namespace, { metadata: { name: "a" } });
  const involvedObject = { apiVersion: "v1", kind: "Pod", namespace: "a", name: "gone", uid: "u" };
  const ownerReferences = [{ apiVersion: "v1", kind: "Pod", name: "gone", uid: "u" }];
  const event = { metadata: { namespace: "a", name: "e", ownerReferences }, involvedObject };
  await client.create(Event, event);
  await client.create(ConfigMap, { metadata: { namespace: "a", name: "settings" } });
  await expect.poll(() => monitor?.graph.inNamespace("a").map(({ name }) => name)).toContain("settings");
  expect(monitor?.graph.inNamespace("a").map(({ type }) => type.kind)).not.toContain("Event");
  expect((await client.list(Event, { namespace: "a" })).items).toHaveLength(1);
  const deleted = becomes(await watchNamespace(client), "DELETED");
  await client.delete(Namespace, { name: "a" });
  expect(await deleted).toBe("DELETED");
  expect((await client.list(Event, { namespace: "a" })).items).toEqual([]);
});

/** Discovered, but its server answers 404. */
const broken: ResourceType = { group: "example.com", version: "v1", kind: "Lamp", plural: "lamps", scope: "Namespaced" };

test("a kind that cannot be listed delays garbage collection by 30 s only, and keeps namespaces from being finalized", async () => {
  const clock = createVirtualClock();
  const client = await start(clock, ({ resources }) => ({ list: () => [...storedKinds(resources).list(), broken] }));
  const ownerReferences = [{ apiVersion: "v1", kind: "ConfigMap", name: "none", uid: "u" }];
  await client.create(ConfigMap, { metadata: { name: "garbage", namespace: "default", ownerReferences } });
  const watch = await client.watch(ConfigMap, { namespace: "default", fieldSelector: "metadata.name=garbage" });
  await client.create(Namespace, { metadata: { name: "a" } });
  const failure = becomes(await watchNamespace(client), "NamespaceDeletionContentFailure");
  await client.delete(Namespace, { name: "a" });
  await clock.advance(30_000);
  for await (const { type } of watch) if (type === "DELETED") break;
  watch.close();
  expect(await failure).toBe("Failed to delete all resource types, 1 remaining: lamps.example.com cannot be listed");
});

test("an object is kept if the kind of its owner is no longer served", async () => {
  const clock = createVirtualClock();
  const client = await start(clock, ({ resources }) => ({ list: () => [...storedKinds(resources).list(), broken] }));
  const createOwned = (name: string, apiVersion: string, kind: string) =>
    client.create(ConfigMap, {
      metadata: { name, namespace: "default", ownerReferences: [{ apiVersion, kind, name: "none", uid: "u" }] },
    });
  await createOwned("of-lamp", "example.com/v1", "Lamp");
  await createOwned("garbage", "v1", "ConfigMap");
  const watch = await client.watch(ConfigMap, { namespace: "default" });
  await clock.advance(30_000);
  for await (const { type, object } of watch) if (type === "DELETED" && object.metadata.name === "garbage") break;
  // Decided after the object of the lamp.
  await createOwned("later-garbage", "v1", "ConfigMap");
  for await (const { type, object } of watch) if (type === "DELETED" && object.metadata.name === "later-garbage") break;
  watch.close();
  expect(await client.get(ConfigMap, { namespace: "default", name: "of-lamp" })).toMatchObject({
    metadata: { name: "of-lamp" },
  });
});
