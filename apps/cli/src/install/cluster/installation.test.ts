import type { JsonValue, KubernetesObject } from "@keelson/api-machinery";
import {
  ClusterRole,
  CustomResourceDefinition,
  Deployment,
  Lease,
  Namespace,
  Secret,
  Service,
} from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { clusterControllers } from "@keelson/cluster/testing";
import { configurationKinds } from "@keelson/controller/webhooks";
import type { Operator } from "@keelson/operator";
import { RhinoJob } from "@keelson/mpi";
import { beforeAll, expect, test } from "vitest";
import { loadOperators } from "../../operators.ts";
import { type InstalledObject, installParts, renderInstallation } from "../install-parts.ts";
import { readValues } from "../values.ts";
import { applyObjects } from "./apply-objects.ts";
import { findStale, prune } from "./prune.ts";
import { displayName, planRemoval, remove } from "./removal.ts";

const namespace = "keelson-system";
let operators: readonly Operator[];
beforeAll(async () => {
  operators = await loadOperators();
});

function render(source: JsonValue = {}): readonly InstalledObject[] {
  const { values } = readValues({ operators, version: "1.2.3", sources: [{ namespace: { create: true } }, source] });
  return renderInstallation(installParts(operators), { values, namespace });
}

async function apply(client: Client, objects: readonly InstalledObject[], dryRun = false): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const onResult = (_: InstalledObject, result: string): void => {
    counts[result] = (counts[result] ?? 0) + 1;
  };
  await applyObjects({ client, objects, dryRun, onResult, signal: AbortSignal.timeout(15_000) });
  return counts;
}

const job = { appExec: "/bin/true", image: "x", parallelism: 1, memoryAllocationSize: 1 };

test("installs, repeats without a change, upgrades, prunes and removes everything", { timeout: 60_000 }, async () => {
  await using environment = await startTestEnvironment({ controllers: [clusterControllers] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const before = (await client.list(ClusterRole)).items.length;
  const objects = render();
  expect(await apply(client, objects, true)).toEqual({ created: objects.length });
  expect((await client.list(Deployment)).items).toEqual([]);
  expect(await apply(client, objects)).toEqual({ created: objects.length });
  expect(await apply(client, objects, true)).toEqual({ unchanged: objects.length });

  const fewer = render({ logLevel: "debug", metrics: { enabled: false } });
  const changed = await apply(client, fewer);
  expect(changed.configured).toBeGreaterThanOrEqual(5);
  const scope = { client, namespace, operators, isComplete: true, signal: AbortSignal.timeout(30_000) };
  const stale = await findStale({ ...scope, objects: fewer });
  expect(stale.map(displayName)).toContain(`Service ${namespace}/keelson-mpi`);
  await prune(client, stale, scope.signal);
  expect((await client.list(Service, { namespace })).items.map(({ metadata }) => metadata.name)).toEqual([
    "keelson-middleware",
    "keelson-robots",
    "keelson-sandboxes",
  ]);

  await client.create(RhinoJob, { metadata: { name: "pi", namespace: "default" }, spec: job as never });
  await client.create(Lease, { metadata: { name: "keelson-mpi", namespace }, spec: {} });
  const removal = await planRemoval(scope);
  expect(removal.userObjects.map(displayName)).toEqual(["RhinoJob default/pi"]);
  await remove({ ...scope, removal, onRemoved: () => {}, deadline: AbortSignal.timeout(30_000) });
  expect((await client.list(CustomResourceDefinition)).items).toEqual([]);
  expect((await client.list(ClusterRole)).items).toHaveLength(before);
  expect((await client.list(Namespace)).items.map(({ metadata }) => metadata.name)).not.toContain(namespace);
});

/** The webhooks of the middleware operator and their certificates, as it creates them for itself. */
async function createWebhooks(client: Client): Promise<() => Promise<readonly string[]>> {
  const name = "keelson-middleware";
  await client.create(configurationKinds.validating, { metadata: { name } });
  await client.create(configurationKinds.mutating, { metadata: { name } });
  await client.create(Secret, { metadata: { name: `${name}-certificates`, namespace } });
  return async () => {
    const kinds = [configurationKinds.validating, configurationKinds.mutating, Secret];
    const all = await Promise.all(kinds.map(async (type) => (await client.list<KubernetesObject>(type)).items));
    return all.flat().flatMap(({ metadata }) => (metadata.name?.startsWith(name) === true ? [metadata.name] : []));
  };
}

test("deletes the webhooks of an operator that is disabled, and only of that", { timeout: 60_000 }, async () => {
  await using environment = await startTestEnvironment({ controllers: [clusterControllers] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const scope = { client, namespace, operators, isComplete: true, signal: AbortSignal.timeout(30_000) };
  await apply(client, render());
  const webhooks = await createWebhooks(client);
  await prune(client, await findStale({ ...scope, objects: render({ mpi: { enabled: false } }) }), scope.signal);
  expect(await webhooks()).toHaveLength(3);
  await prune(client, await findStale({ ...scope, objects: render({ middleware: { enabled: false } }) }), scope.signal);
  expect(await webhooks()).toEqual([]);
});

test("deletes webhooks only after the Pods of their operator, which would create them again", {
  timeout: 120_000,
}, async () => {
  await using environment = await startTestEnvironment({ controllers: [clusterControllers] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await apply(client, render());
  const webhooks = await createWebhooks(client);
  const key = { namespace, name: "keelson-middleware" };
  const hold = (finalizers: readonly string[]) =>
    client.patch(Deployment, key, { type: "merge", body: { metadata: { finalizers } } });
  await hold(["example.com/pods-terminate"]);
  const signal = AbortSignal.timeout(90_000);
  const removal = await planRemoval({ client, namespace, operators, isComplete: true, signal });
  const removing = remove({ client, removal, onRemoved: () => {}, signal, deadline: signal });
  const deployments = async () => (await client.list(Deployment, { namespace })).items;
  await expect
    .poll(async () => (await deployments()).map(({ metadata }) => metadata.name), { timeout: 60_000 })
    .toEqual(["keelson-middleware"]);
  expect((await deployments())[0]?.metadata.deletionTimestamp).toBeDefined();
  expect(await webhooks()).toHaveLength(3);
  await hold([]);
  await removing;
  expect(await webhooks()).toEqual([]);
});

test("removes one operator and leaves the others", { timeout: 60_000 }, async () => {
  await using environment = await startTestEnvironment({ controllers: [clusterControllers] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await apply(client, render());
  const signal = AbortSignal.timeout(30_000);
  const mpi = operators.filter(({ name }) => name === "mpi");
  const removal = await planRemoval({ client, namespace, operators: mpi, isComplete: false, signal });
  await remove({ client, removal, onRemoved: () => {}, signal, deadline: signal });
  const left = (await client.list(Deployment, { namespace })).items.map(({ metadata }) => metadata.name);
  expect(left).toEqual(["keelson-middleware", "keelson-robots", "keelson-sandboxes", "keelson-testplane"]);
  const kinds = operators.filter(({ name }) => name !== "mpi").flatMap(({ resources }) => resources);
  expect((await client.list(CustomResourceDefinition)).items).toHaveLength(kinds.length);
});

test("leaves an installation of Helm alone and names the command to use", async () => {
  await using environment = await startTestEnvironment();
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(ClusterRole, {
    metadata: {
      name: "keelson:mpi",
      annotations: { "meta.helm.sh/release-name": "work", "meta.helm.sh/release-namespace": "ns" },
    },
    rules: [],
  });
  await expect(apply(client, render())).rejects.toThrow(
    "ClusterRole keelson:mpi belongs to the Helm release work: use helm upgrade or helm uninstall work -n ns",
  );
  expect((await client.list(CustomResourceDefinition)).items).toEqual([]);
});
