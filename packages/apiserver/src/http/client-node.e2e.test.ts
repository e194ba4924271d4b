import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  ApiException,
  AppsV1Api,
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  KubernetesObjectApi,
  makeInformer,
  PatchStrategy,
  setHeaderOptions,
  type V1ConfigMap,
} from "@kubernetes/client-node";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { systemRandom } from "../endpoints/random-source.ts";
import { serveApi } from "../serving/serve-api.ts";
import type { ServedApi } from "../serving/serve-options.ts";

let directory: string;
let api: ServedApi;
let config: KubeConfig;
let core: CoreV1Api;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-client-node-"));
  api = await serveApi({
    dataDir: directory,
    port: 0,
    clock: systemClock,
    random: systemRandom,
    storage: { historyEvents: 1 },
  });
  config = new KubeConfig();
  config.loadFromFile(api.kubeconfig);
  core = config.makeApiClient(CoreV1Api);
});
afterAll(async () => {
  await api.close();
  await rm(directory, { recursive: true, force: true });
});

const namespace = "default";
const configMap = (name: string, data: Record<string, string> = {}): V1ConfigMap => ({
  metadata: { name, labels: { test: name } },
  data,
});

/** What `@kubernetes/client-node` throws for an answer that is a failure. */
async function failureOf(promise: Promise<unknown>): Promise<{ code: number; reason: unknown; message: unknown }> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof ApiException)) throw new Error(`no failure of the API: ${String(error)}`);
  const status = JSON.parse(String(error.body)) as { readonly reason: unknown; readonly message: unknown };
  return { code: error.code, reason: status.reason, message: status.message };
}

describe("@kubernetes/client-node", () => {
  test("creates, reads, replaces, lists by pages and deletes", async () => {
    const created = await core.createNamespacedConfigMap({ namespace, body: configMap("a", { k: "1" }) });
    expect(created.metadata?.uid).toMatch(/^[0-9a-f-]{36}$/);
    expect(created.metadata?.creationTimestamp).toBeInstanceOf(Date);
    const replaced = await core.replaceNamespacedConfigMap({ name: "a", namespace, body: { ...created, data: { k: "2" } } });
    expect(replaced.data).toEqual({ k: "2" });
    for (const name of ["b", "c"]) await core.createNamespacedConfigMap({ namespace, body: configMap(name) });
    const names: (string | undefined)[] = [];
    let _continue: string | undefined;
    do {
      const page = await core.listNamespacedConfigMap({
        namespace,
        limit: 1,
        labelSelector: "test in (a, b, c)",
        ...(_continue === undefined ? {} : { _continue }),
      });
      names.push(...page.items.map((item) => item.metadata?.name));
      _continue = page.metadata?._continue || undefined;
    } while (_continue !== undefined);
    expect(names).toEqual(["a", "b", "c"]);
    await core.deleteNamespacedConfigMap({ name: "a", namespace });
    await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: "test in (b, c)" });
    expect((await core.listNamespacedConfigMap({ namespace, labelSelector: "test" })).items).toEqual([]);
  });

  test("patches in all four ways", async () => {
    const apps = config.makeApiClient(AppsV1Api);
    const labels = { app: "patched" };
    const containers = [{ name: "main", image: "x", env: [{ name: "A", value: "1" }] }];
    await apps.createNamespacedDeployment({
      namespace,
      body: {
        metadata: { name: "patched" },
        spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
      },
    });
    const patch = (strategy: PatchStrategy, body: unknown, more: object = {}) =>
      apps.patchNamespacedDeployment({ name: "patched", namespace, body, ...more }, setHeaderOptions("Content-Type", strategy));
    const strategic = { spec: { template: { spec: { containers: [{ name: "main", env: [{ name: "B", value: "2" }] }] } } } };
    const environment = (await patch(PatchStrategy.StrategicMergePatch, strategic)).spec?.template.spec?.containers[0]?.env;
    expect(environment?.map(({ name }) => name).sort()).toEqual(["A", "B"]);
    const merged = await patch(PatchStrategy.MergePatch, { spec: { replicas: 3 }, metadata: { labels: { x: "y" } } });
    expect([merged.spec?.replicas, merged.metadata?.labels]).toEqual([3, { x: "y" }]);
    const replaced = await patch(PatchStrategy.JsonPatch, [{ op: "replace", path: "/spec/replicas", value: 4 }]);
    expect(replaced.spec?.replicas).toBe(4);
    const applied = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "patched" }, spec: { replicas: 5 } };
    expect(await failureOf(patch(PatchStrategy.ServerSideApply, applied, { fieldManager: "me" }))).toMatchObject({
      code: 409,
      reason: "Conflict",
      message: expect.stringMatching(/^Apply failed with 1 conflict: conflict with "[^"]+"[^:]*: \.spec\.replicas$/),
    });
    const forced = await patch(PatchStrategy.ServerSideApply, applied, { fieldManager: "me", force: true });
    expect(forced.spec?.replicas).toBe(5);
    expect(forced.metadata?.managedFields).toContainEqual(
      expect.objectContaining({ manager: "me", operation: "Apply", fieldsV1: { "f:spec": { "f:replicas": {} } } }),
    );
    const scale = await apps.readNamespacedDeploymentScale({ name: "patched", namespace });
    expect(scale.spec?.replicas).toBe(5);
  });

  test("receives failures as a Status", async () => {
    await core.createNamespacedConfigMap({ namespace, body: configMap("taken") });
    expect(await failureOf(core.createNamespacedConfigMap({ namespace, body: configMap("taken") }))).toEqual({
      code: 409,
      reason: "AlreadyExists",
      message: 'configmaps "taken" already exists',
    });
    expect(await failureOf(core.readNamespacedConfigMap({ name: "absent", namespace }))).toEqual({
      code: 404,
      reason: "NotFound",
      message: 'configmaps "absent" not found',
    });
    expect(await failureOf(core.createNamespacedConfigMap({ namespace, body: configMap("Not_A_Name") }))).toMatchObject({
      code: 422,
      reason: "Invalid",
      message: expect.stringContaining('ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name"'),
    });
    const stale = { ...configMap("taken"), metadata: { name: "taken", resourceVersion: "1" } };
    expect(await failureOf(core.replaceNamespacedConfigMap({ name: "taken", namespace, body: stale }))).toMatchObject({
      code: 409,
      reason: "Conflict",
      message: expect.stringContaining(
        "the object has been modified; please apply your changes to the latest version and try again",
      ),
    });
  });

  test("works with kinds that it does not know", async () => {
    const objects = KubernetesObjectApi.makeApiClient(config);
    const names = { plural: "lamps", singular: "lamp", kind: "Lamp", listKind: "LampList" };
    const spec = { type: "object", properties: { watts: { type: "integer" } } };
    const openAPIV3Schema = { type: "object", properties: { spec } };
    await objects.create({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: "lamps.example.com" },
      spec: {
        group: "example.com",
        scope: "Namespaced",
        names,
        versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema } }],
      },
    });
    const lamp = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "one", namespace }, spec: { watts: 3 } };
    const custom = config.makeApiClient(CustomObjectsApi);
    const place = { group: "example.com", version: "v1", namespace, plural: "lamps" };
    // Served a moment after its definition, as in Kubernetes.
    await vi.waitFor(() => custom.createNamespacedCustomObject({ ...place, body: lamp }));
    // Of a kind that it has no model of, this client keeps only the metadata.
    expect((await objects.read(lamp)).metadata?.name).toBe("one");
    expect(await custom.listNamespacedCustomObject(place)).toMatchObject({ kind: "LampList", items: [{ spec: { watts: 3 } }] });
  });

  test("an informer follows changes, and lists again when the changes since are forgotten", async () => {
    const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: "informed=yes" });
    const labels = { informed: "yes" };
    const make = (name: string): Promise<unknown> =>
      core.createNamespacedConfigMap({ namespace, body: { metadata: { name, labels } } });
    await make("first");
    const informer = makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list, "informed=yes");
    const seen: string[] = [];
    const waiting = new Map<string, () => void>();
    const note = (what: string) => (object: V1ConfigMap) => {
      const line = `${what} ${object.metadata?.name}`;
      seen.push(line);
      waiting.get(line)?.();
    };
    const until = (line: string): Promise<void> =>
      new Promise((resolve) => {
        waiting.set(line, resolve);
        if (seen.includes(line)) resolve();
      });
    for (const verb of ["add", "update", "delete"] as const) informer.on(verb, note(verb));
    const failures: unknown[] = [];
    informer.on("error", (error: unknown) => void failures.push(error));
    await informer.start();
    try {
      await until("add first");
      await make("second");
      await until("add second");
      await core.patchNamespacedConfigMap(
        { name: "second", namespace, body: { data: { k: "v" } } },
        setHeaderOptions("Content-Type", PatchStrategy.MergePatch),
      );
      await until("update second");
      await core.deleteNamespacedConfigMap({ name: "second", namespace });
      await until("delete second");
      expect(informer.list().map(({ metadata }) => metadata?.name)).toEqual(["first"]);
      expect(failures).toEqual([]);
      // Its revision is compacted when it reconnects, so it gets 410 and lists again.
      await informer.stop();
      for (const name of ["third", "fourth", "fifth"]) await make(name);
      await core.deleteNamespacedConfigMap({ name: "first", namespace });
      await informer.start();
      await until("add fifth");
      await until("delete first");
      const names = informer.list().map(({ metadata }) => metadata?.name);
      expect(names.sort()).toEqual(["fifth", "fourth", "third"]);
    } finally {
      await informer.stop();
    }
  });
});
