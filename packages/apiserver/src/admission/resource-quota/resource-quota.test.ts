import { ConfigMap, Namespace, Pod } from "@keelson/api-machinery/kinds";
import { createClient } from "@keelson/client";
import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { afterEach, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

interface ResourceQuota extends KubernetesObject {
  spec: { hard: Record<string, string> };
  status?: { hard?: Record<string, string>; used?: Record<string, string> };
}

const resourceQuotas: ResourceType<ResourceQuota> = {
  group: "",
  version: "v1",
  kind: "ResourceQuota",
  plural: "resourcequotas",
  scope: "Namespaced",
};

let environment: TestEnvironment;
afterEach(() => environment.stop());

async function start(hard: Record<string, string>) {
  environment = await startTestEnvironment();
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(Namespace, { metadata: { name: "limited" } });
  await client.create(resourceQuotas, { metadata: { namespace: "limited", name: "q" }, spec: { hard } });
  const used = async (): Promise<unknown> =>
    (await client.get(resourceQuotas, { namespace: "limited", name: "q" })).status?.used;
  return { client, used };
}

it("admits no more objects than a quota allows, however many are created at the same time", async () => {
  const { client, used } = await start({ "count/configmaps": "5" });
  const results = await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) =>
      client.create(ConfigMap, { metadata: { namespace: "limited", name: `c${index}` } }),
    ),
  );
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(5);
  expect((await client.list(ConfigMap, { namespace: "limited" })).items).toHaveLength(5);
  expect(await used()).toEqual({ "count/configmaps": "5" });
});

it("releases usage when objects are deleted or were never stored", async () => {
  const { client, used } = await start({ pods: "2" });
  const pod = (name: string) => ({
    metadata: { namespace: "limited", name },
    spec: { containers: [{ name: "a", image: "a" }] },
  });
  await client.create(Pod, pod("a"));
  await expect(client.create(Pod, pod("a"))).rejects.toMatchObject({ status: { reason: "AlreadyExists" } });
  await expect.poll(used).toEqual({ pods: "1" });
  await client.create(Pod, pod("b"));
  await expect(client.create(Pod, pod("c"))).rejects.toMatchObject({
    status: { message: 'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2' },
  });
  await client.delete(Pod, { namespace: "limited", name: "a" }, { gracePeriodSeconds: 0 });
  await expect.poll(used).toEqual({ pods: "1" });
  await client.create(Pod, pod("c"));
});

it("enforces a quota from the request after its creation to its deletion, in its namespace only", async () => {
  const { client } = await start({ "count/configmaps": "0" });
  const configMap = (namespace: string) => ({ metadata: { namespace, name: "a" } });
  await expect(client.create(ConfigMap, configMap("limited"))).rejects.toMatchObject({ status: { reason: "Forbidden" } });
  await client.create(ConfigMap, configMap("default"));
  await client.create(resourceQuotas, {
    metadata: { namespace: "limited", name: "p" },
    spec: { hard: { "count/secrets": "0" } },
  });
  await client.delete(resourceQuotas, { namespace: "limited", name: "q" });
  await client.create(ConfigMap, configMap("limited"));
  await client.delete(resourceQuotas, { namespace: "limited", name: "p" });
});

it("counts the largest of the desired, allocated and actual resources of a Pod that is being resized", async () => {
  const { client, used } = await start({ "requests.cpu": "4", "limits.cpu": "8" });
  const resources = (request: string, limit: string) => ({ requests: { cpu: request }, limits: { cpu: limit } });
  const containers = [{ name: "a", image: "a", resources: resources("2", "3") }];
  const pod = { namespace: "limited", name: "a" };
  await client.create(Pod, { metadata: pod, spec: { containers } });
  const status = { name: "a", ready: true, restartCount: 0, image: "a", imageID: "", resources: resources("2", "3") };
  const shown = { status: { phase: "Running", containerStatuses: [{ ...status, allocatedResources: { cpu: "2" } }] } };
  await client.patch(Pod, pod, { type: "merge", body: shown }, { subresource: "status" });
  const body = { spec: { containers: [{ name: "a", resources: resources("1", "2") }] } };
  await client.patch(Pod, pod, { type: "strategic", body }, { subresource: "resize" });
  await expect.poll(used).toEqual({ "requests.cpu": "2", "limits.cpu": "3" });
  const large = [{ name: "a", image: "a", resources: resources("3", "4") }];
  const second = client.create(Pod, { metadata: { namespace: "limited", name: "b" }, spec: { containers: large } });
  await expect(second).rejects.toMatchObject({ status: { reason: "Forbidden" } });
});
