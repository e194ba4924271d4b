import { Node, PersistentVolume, PersistentVolumeClaim, Pod, PriorityClass, StorageClass } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { type Cache, createManager, defineController, readOf, type ReconcileContext, silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import type { CachedPod } from "../workload/pod-state.ts";
import { selectedNodeAnnotation } from "./scheduler-decision.ts";
import { createScheduler } from "./scheduler.ts";

const round = { name: "pending-pods" };
const reportOf = (name: string) => ({ namespace: "default", name });

interface Stage {
  readonly environment: TestEnvironment;
  readonly client: Client;
  readonly context: ReconcileContext;
}

/** An API server and the context of a reconcile, with which a test calls the scheduler itself. */
async function setUp(): Promise<Stage> {
  const environment = await startTestEnvironment();
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(Node, { metadata: { name: "trigger" }, spec: { unschedulable: true } });
  const context = await new Promise<ReconcileContext>((resolve, reject) => {
    const controller = defineController({
      name: "test",
      for: Node,
      reads: [readOf(Pod), readOf(PersistentVolumeClaim), readOf(PersistentVolume), readOf(StorageClass)],
      reconcile: (_, given) => {
        resolve(given);
        return Promise.resolve();
      },
    });
    const manager = createManager({
      name: "test",
      client,
      clock: systemClock,
      logger: silentLogger,
      controllers: [controller],
    });
    onTestFinished(() => manager.stop());
    manager.start().catch(reject);
  });
  return { environment, client, context };
}

async function createPod({ client, context }: Stage, name: string, spec: object = {}): Promise<CachedPod> {
  const containers = [{ name: "a", image: "a", resources: { requests: { cpu: "1" } } }];
  const pod = await client.create(Pod, { metadata: { namespace: "default", name }, spec: { containers, ...spec } });
  await context.cache.whenSeen(Pod, pod);
  return pod;
}

async function createNode({ client, context }: Stage, name: string): Promise<void> {
  const status = { allocatable: { cpu: "1", memory: "4Gi", pods: "10" }, conditions: [{ type: "Ready", status: "True" }] };
  await context.cache.whenSeen(Node, await client.create(Node, { metadata: { name }, status }));
}

async function conditionsOf({ client }: Stage, name: string): Promise<readonly string[]> {
  const pod = await client.get(Pod, { namespace: "default", name });
  return (pod.status?.conditions ?? []).map(({ type, status }) => `${type}=${status}`);
}

test("a report that fails is repeated", async () => {
  const stage = await setUp();
  await createPod(stage, "p0", { nodeSelector: { no: "where" } });
  const scheduler = createScheduler();
  await scheduler.reconcile(round, stage.context);
  stage.environment.faults.failNext({
    reason: "InternalError",
    when: ({ method, path }) => method === "PATCH" && path.endsWith("/pods/p0/status"),
  });
  await expect(scheduler.reconcile(reportOf("p0"), stage.context)).rejects.toThrow("injected");
  expect(await conditionsOf(stage, "p0")).toEqual([]);
  await scheduler.reconcile(reportOf("p0"), stage.context);
  expect(await conditionsOf(stage, "p0")).toEqual(["PodScheduled=False"]);
});

test("a Pod that was created again is not reported with the reason of its predecessor", async () => {
  const stage = await setUp();
  const first = await createPod(stage, "p", { nodeSelector: { no: "where" } });
  const scheduler = createScheduler();
  await scheduler.reconcile(round, stage.context);
  await stage.client.delete(Pod, { namespace: "default", name: "p" }, { gracePeriodSeconds: 0 });
  await stage.context.cache.whenDeleted(Pod, first);
  await createPod(stage, "p");
  await scheduler.reconcile(reportOf("p"), stage.context);
  expect(await conditionsOf(stage, "p")).toEqual([]);
});

test("a report is withdrawn once a later round finds a node", async () => {
  const stage = await setUp();
  const { client, context } = stage;
  const metadata = { name: "local" };
  await context.cache.whenSeen(
    StorageClass,
    await client.create(StorageClass, { metadata, provisioner: "test/local", volumeBindingMode: "WaitForFirstConsumer" }),
  );
  const claim = await client.create(PersistentVolumeClaim, {
    metadata: { namespace: "default", name: "data" },
    spec: { accessModes: ["ReadWriteOnce"], storageClassName: "local", resources: { requests: { storage: "1Gi" } } },
  });
  await context.cache.whenSeen(PersistentVolumeClaim, claim);
  // It stays pending, as its claim stays unbound.
  await createPod(stage, "p", { volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }] });
  const scheduler = createScheduler();
  await scheduler.reconcile(round, context);
  await createNode(stage, "n1");
  await scheduler.reconcile(round, context);
  const { annotations } = (await client.get(PersistentVolumeClaim, { namespace: "default", name: "data" })).metadata;
  expect(annotations?.[selectedNodeAnnotation]).toBe("n1");
  await scheduler.reconcile(reportOf("p"), context);
  expect(await conditionsOf(stage, "p")).toEqual([]);
});

test.each([
  ["nothing changed", {}, false],
  ["the Pod was deleted", { urgent: "missing" }, true],
  ["the Pod was created again, or bound", { urgent: "low" }, true],
  ["the node was deleted", { n1: "missing" }, true],
])(
  "victims of a preemption: %s while the round was decided",
  async (_what, renamed: Readonly<Record<string, string>>, survives) => {
    const stage = await setUp();
    await createNode(stage, "n1");
    await createPod(stage, "low", { nodeName: "n1" });
    await stage.client.create(PriorityClass, { metadata: { name: "high" }, value: 10 });
    await createPod(stage, "urgent", { priorityClassName: "high" });
    const { cache } = stage.context;
    // The round is decided on lists. Afterwards, the cache shows other objects.
    const later: Cache = {
      get: (type, key) => cache.get(type, { ...key, name: renamed[key.name] ?? key.name }),
      list: (type, options) => cache.list(type, options),
      whenSeen: (type, object, options) => cache.whenSeen(type, object, options),
      whenDeleted: (type, object, options) => cache.whenDeleted(type, object, options),
    };
    await createScheduler().reconcile(round, { ...stage.context, cache: later });
    const victims = (await stage.client.list(Pod)).items.filter(({ metadata }) => metadata.name === "low");
    const survivors = victims.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    expect(survivors).toHaveLength(survives ? 1 : 0);
  },
);
