import { ConfigMap, Namespace, Pod, ResourceQuota, Secret } from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { expect, it } from "vitest";
import { quotaAccounting } from "../testing/environment-controllers.ts";

const namespace = "limited";
const pod = (name: string, more: { readonly restartPolicy?: "Never" } = {}) => ({
  metadata: { namespace, name },
  spec: { containers: [{ name: "a", image: "a", resources: { requests: { cpu: "100m" } } }], ...more },
});

/** Starts an API server with the controller and a namespace. */
async function start() {
  const environment = await startTestEnvironment({ controllers: [quotaAccounting] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(Namespace, { metadata: { name: namespace } });
  return {
    environment,
    client,
    createQuota: (hard: Record<string, string>, scopes?: string[]) =>
      client.create(ResourceQuota, { metadata: { namespace, name: "q" }, spec: { hard, ...(scopes ? { scopes } : {}) } }),
    status: async () => (await client.get(ResourceQuota, { namespace, name: "q" })).status,
    [Symbol.asyncDispose]: () => environment.stop(),
  };
}

it("counts the objects that exist when a quota is created or raised", async () => {
  await using cluster = await start();
  const { client, createQuota, status } = cluster;
  await client.create(Pod, pod("a"));
  await client.create(ConfigMap, { metadata: { namespace, name: "c" } });
  await createQuota({ pods: "2", "requests.cpu": "1", "count/configmaps": "5" });
  const hard = { pods: "2", "requests.cpu": "1", "count/configmaps": "5" };
  await expect.poll(status).toEqual({ hard, used: { pods: "1", "requests.cpu": "100m", "count/configmaps": "1" } });
  const body = { spec: { hard: { pods: "3", secrets: "9" } } };
  await client.patch(ResourceQuota, { namespace, name: "q" }, { type: "merge", body });
  await expect.poll(status).toEqual({
    hard: { ...hard, pods: "3", secrets: "9" },
    used: { pods: "1", "requests.cpu": "100m", "count/configmaps": "1", secrets: "0" },
  });
});

it("releases usage when objects are deleted or were never stored", async () => {
  await using cluster = await start();
  const { client, createQuota, status } = cluster;
  const used = async (): Promise<unknown> => (await status())?.used;
  await createQuota({ pods: "2" });
  await client.create(Pod, pod("a"));
  await expect(client.create(Pod, pod("a"))).rejects.toMatchObject({ status: { reason: "AlreadyExists" } });
  await expect.poll(used).toEqual({ pods: "1" });
  await client.create(Pod, pod("b"));
  await expect(client.create(Pod, pod("c"))).rejects.toMatchObject({
    status: { message: 'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2' },
  });
  await client.delete(Pod, { namespace, name: "a" }, { gracePeriodSeconds: 0 });
  await expect.poll(used).toEqual({ pods: "1" });
  await client.create(Pod, pod("c"));
});

it("releases what objects used that were created before the quota", async () => {
  await using cluster = await start();
  const { client, createQuota, status } = cluster;
  for (const name of ["a", "b"]) await client.create(ConfigMap, { metadata: { namespace, name } });
  await createQuota({ configmaps: "2" });
  await expect.poll(async () => (await status())?.used).toEqual({ configmaps: "2" });
  await client.delete(ConfigMap, { namespace, name: "a" });
  await expect.poll(async () => (await status())?.used).toEqual({ configmaps: "1" });
});

it("releases what a Pod used when it has finished", async () => {
  await using cluster = await start();
  const { client, createQuota, status } = cluster;
  await client.create(Pod, pod("a", { restartPolicy: "Never" }));
  await createQuota({ pods: "1", "count/pods": "9" });
  await expect.poll(async () => (await status())?.used).toEqual({ pods: "1", "count/pods": "1" });
  const body = { status: { phase: "Succeeded" } };
  await client.patch(Pod, { namespace, name: "a" }, { type: "merge", body }, { subresource: "status" });
  await expect.poll(async () => (await status())?.used).toEqual({ pods: "0", "count/pods": "1" });
  await client.create(Pod, pod("b"));
});

it("counts only the Pods that match the scopes", async () => {
  await using cluster = await start();
  const { client, createQuota, status } = cluster;
  await client.create(Pod, pod("requests"));
  await client.create(Pod, { ...pod("best-effort"), spec: { containers: [{ name: "a", image: "a" }] } });
  await createQuota({ pods: "5" }, ["BestEffort"]);
  await expect.poll(async () => (await status())?.used).toEqual({ pods: "1" });
});

it("restores a status that was overwritten", async () => {
  await using cluster = await start();
  const { client, createQuota, status } = cluster;
  await client.create(Secret, { metadata: { namespace, name: "s" } });
  await createQuota({ secrets: "5" });
  await expect.poll(async () => (await status())?.used).toEqual({ secrets: "1" });
  const body = { status: { used: { secrets: "4" } } };
  await client.patch(ResourceQuota, { namespace, name: "q" }, { type: "merge", body }, { subresource: "status" });
  await expect.poll(async () => (await status())?.used).toEqual({ secrets: "1" });
});

it("counts custom kinds as soon as they are served", async () => {
  await using cluster = await start();
  const { environment, client, createQuota, status } = cluster;
  const kind = "count/widgets.example.com";
  await createQuota({ [kind]: "5" });
  await expect.poll(async () => (await status())?.used).toEqual({ [kind]: "0" });
  const names = { kind: "Widget", plural: "widgets", singular: "widget", listKind: "WidgetList" };
  const schema = { openAPIV3Schema: { type: "object" } };
  const versions = [{ name: "v1", served: true, storage: true, schema }];
  const crd = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.example.com" },
    spec: { group: "example.com", scope: "Namespaced", names, versions },
  };
  await environment.install([crd]);
  const Widget = { group: "example.com", version: "v1", kind: "Widget", plural: "widgets", scope: "Namespaced" } as const;
  await client.create(Widget, { metadata: { namespace, name: "w" } });
  await client.delete(Widget, { namespace, name: "w" });
  await client.create(Widget, { metadata: { namespace, name: "x" } });
  await expect.poll(async () => (await status())?.used).toEqual({ [kind]: "1" });
});
