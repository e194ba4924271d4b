import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DeepReadonly, isConditionTrue, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import {
  Deployment,
  Endpoints,
  EndpointSlice,
  Job,
  Node,
  Pod,
  PodDisruptionBudget,
  type PodDisruptionBudgetObject,
  type PodObject,
  ReplicaSet,
  Service,
  StatefulSet,
} from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { describe, expect, test } from "vitest";
import { startCluster } from "./start-cluster.ts";
import { storedKinds } from "./stored-kinds.ts";
import { type PodFate, startFakeNode } from "./testing/fake-node.ts";

const namespace = "default";

async function start(options: { readonly fate?: PodFate; readonly noNode?: boolean } = {}) {
  const environment = await startTestEnvironment({ clock: systemClock });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const kinds = storedKinds(environment.resources);
  const volumesDirectory = mkdtempSync(join(tmpdir(), "keelson-volumes-"));
  const cluster = await startCluster({ client, kinds, clock: systemClock, log: silentLogger, volumesDirectory });
  const node = options.noNode ? undefined : await startFakeNode(client, options);
  return {
    client,
    volumesDirectory,
    async [Symbol.asyncDispose]() {
      await node?.stop();
      await cluster.stop();
      await environment.stop();
      rmSync(volumesDirectory, { recursive: true, force: true });
    },
  };
}

/** Watches until all objects of a kind satisfy `holds`, and returns them. */
async function until<T extends KubernetesObject>(
  client: Client,
  type: ResourceType<T>,
  holds: (objects: readonly DeepReadonly<T>[]) => boolean,
): Promise<readonly DeepReadonly<T>[]> {
  const watch = await client.watch(type, type.scope === "Cluster" ? {} : { namespace });
  try {
    const list = async () =>
      (await client.list(type, type.scope === "Cluster" ? {} : { namespace })).items as DeepReadonly<T>[];
    let objects = await list();
    if (holds(objects)) return objects;
    for await (const _event of watch) {
      objects = await list();
      if (holds(objects)) return objects;
    }
    throw new Error("the watch ended");
  } finally {
    watch.close();
  }
}

const template = (labels: Record<string, string>, image = "app:1", more: object = {}) => ({
  metadata: { labels },
  spec: { containers: [{ name: "main", image, ports: [{ name: "http", containerPort: 8080 }] }], ...more },
});

describe("on an API server", () => {
  test("a Deployment comes up behind its Service, rolls out, scales to zero, and is deleted with its dependents", async () => {
    await using cluster = await start();
    const { client } = cluster;
    const labels = { app: "web" };
    await client.create(Service, {
      metadata: { name: "web", namespace },
      spec: { selector: labels, ports: [{ port: 80, targetPort: "http" }] },
    });
    await client.create(Deployment, {
      metadata: { name: "web", namespace },
      spec: { replicas: 3, selector: { matchLabels: labels }, template: template(labels) },
    });
    await until(client, Deployment, ([one]) => one?.status?.availableReplicas === 3);
    const [slice] = await until(
      client,
      EndpointSlice,
      (slices) => slices.flatMap(({ endpoints }) => endpoints ?? []).length === 3,
    );
    expect(slice?.ports).toMatchObject([{ port: 8080, protocol: "TCP" }]);
    expect(slice?.endpoints.every(({ conditions }) => conditions?.ready)).toBe(true);
    await until(
      client,
      Endpoints,
      (all) => all.find(({ metadata }) => metadata.name === "web")?.subsets?.[0]?.addresses?.length === 3,
    );
    await client.patch(
      Deployment,
      { namespace, name: "web" },
      {
        type: "strategic",
        body: { spec: { template: { spec: { containers: [{ name: "main", image: "app:2" }] } } } },
      },
    );
    await until(
      client,
      Deployment,
      ([one]) =>
        one?.status?.observedGeneration === 2 &&
        one.status.updatedReplicas === 3 &&
        one.status.replicas === 3 &&
        one.status.availableReplicas === 3,
    );
    expect((await client.list(ReplicaSet, { namespace })).items).toHaveLength(2);
    await client.patch(Deployment, { namespace, name: "web" }, { type: "merge", body: { spec: { replicas: 0 } } });
    await until(client, Pod, (pods) => pods.length === 0);
    await client.delete(Deployment, { namespace, name: "web" }, { propagationPolicy: "Foreground" });
    await until(client, ReplicaSet, (all) => all.length === 0);
    await client.delete(Service, { namespace, name: "web" });
    await until(client, EndpointSlice, (all) => all.every(({ metadata }) => !metadata.name?.startsWith("web")));
  });

  test("an Indexed Job completes once each of its five indexes has succeeded", async () => {
    await using cluster = await start({ fate: () => "succeed" });
    const { client } = cluster;
    await client.create(Job, {
      metadata: { name: "sum", namespace },
      spec: {
        completions: 5,
        parallelism: 2,
        completionMode: "Indexed",
        template: template({}, "app:1", { restartPolicy: "Never" }),
      },
    });
    const [job] = await until(client, Job, ([one]) => isConditionTrue((one?.status?.conditions ?? []) as never, "Complete"));
    expect(job?.status).toMatchObject({ succeeded: 5, completedIndexes: "0-4" });
    const pods = (await client.list(Pod, { namespace })).items;
    expect(pods).toHaveLength(5);
    expect(pods.flatMap(({ metadata }) => metadata.finalizers ?? [])).toEqual([]);
  });

  test("a StatefulSet starts in order and recreates a deleted Pod", async () => {
    await using cluster = await start();
    const { client } = cluster;
    const labels = { app: "db" };
    await client.create(StatefulSet, {
      metadata: { name: "db", namespace },
      spec: {
        serviceName: "db",
        replicas: 2,
        selector: { matchLabels: labels },
        template: template(labels),
      },
    });
    const [set] = await until(
      client,
      StatefulSet,
      ([one]) => one?.status?.readyReplicas === 2 && one.status.currentRevision === one.status.updateRevision,
    );
    expect(set?.status).toMatchObject({ replicas: 2, availableReplicas: 2, currentReplicas: 2, updatedReplicas: 2 });
    const before = await client.get(Pod, { namespace, name: "db-1" });
    await client.delete(Pod, { namespace, name: "db-1" });
    await until(client, Pod, (pods) =>
      pods.some(({ metadata }) => metadata.name === "db-1" && metadata.uid !== before.metadata.uid),
    );
    await client.delete(StatefulSet, { namespace, name: "db" });
    await until(client, Pod, (pods) => pods.length === 0);
  });

  test("an unschedulable Pod reports the reason and is bound once a node fits", async () => {
    await using cluster = await start({ noNode: true });
    const { client } = cluster;
    await client.create(Pod, {
      metadata: { name: "p", namespace },
      spec: {
        containers: [{ name: "main", image: "app", resources: { requests: { cpu: "3" } } }],
        nodeSelector: { disk: "fast" },
      },
    });
    const message = (pods: readonly DeepReadonly<PodObject>[]) =>
      pods[0]?.status?.conditions?.find(({ type }) => type === "PodScheduled")?.message;
    await until(client, Pod, (pods) => message(pods) === "no nodes available to schedule pods");
    await using node = await startFakeNode(client);
    await until(
      client,
      Pod,
      (pods) =>
        message(pods)?.startsWith("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.") === true,
    );
    await client.patch(Node, { name: node.name }, { type: "merge", body: { metadata: { labels: { disk: "fast" } } } });
    const [pod] = await until(client, Pod, (pods) => pods[0]?.status?.phase === "Running");
    expect(pod?.spec.nodeName).toBe("node");
  });

  test("a budget lets Pods be evicted one at a time as replacements become ready", async () => {
    await using cluster = await start();
    const { client } = cluster;
    const labels = { app: "web" };
    await client.create(PodDisruptionBudget, {
      metadata: { name: "web", namespace },
      spec: { maxUnavailable: "50%", selector: { matchLabels: labels } },
    });
    const spec = { replicas: 2, selector: { matchLabels: labels }, template: template(labels) as never };
    await client.create(Deployment, { metadata: { name: "web", namespace }, spec });
    const isOpen = ([budget]: readonly DeepReadonly<PodDisruptionBudgetObject>[]) =>
      budget?.status?.currentHealthy === 2 && budget.status.disruptionsAllowed === 1;
    const [budget] = await until(client, PodDisruptionBudget, isOpen);
    expect(budget?.status).toMatchObject({ expectedPods: 2, desiredHealthy: 1, observedGeneration: 1 });
    const [first, second] = (await client.list(Pod, { namespace })).items.map(({ metadata }) => metadata.name ?? "");
    await evict(client, first ?? "");
    await until(client, PodDisruptionBudget, isOpen);
    await evict(client, second ?? "");
    const pods = await until(client, Pod, (all) => all.filter(isRunning).length === 2);
    expect(pods.some(({ metadata }) => metadata.name === first)).toBe(false);
    // A changed scale changes the number of allowed disruptions.
    await client.patch(Deployment, { namespace, name: "web" }, { type: "merge", body: { spec: { replicas: 1 } } });
    await until(client, PodDisruptionBudget, ([one]) => one?.status?.expectedPods === 1 && one.status.desiredHealthy === 0);
  });
});

const isRunning = ({ metadata, status }: DeepReadonly<PodObject>): boolean =>
  status?.phase === "Running" && metadata.deletionTimestamp === undefined;

const evictions: ResourceType = { group: "policy", version: "v1", kind: "Eviction", plural: "evictions", scope: "Namespaced" };

function evict(client: Client, name: string): Promise<unknown> {
  return client.create(evictions, { metadata: { name, namespace } }, { subresource: { of: Pod, name: "eviction" } });
}
