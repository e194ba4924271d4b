import { isNotFound, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import {
  ConfigMap,
  CustomResourceDefinition,
  Event,
  type EventObject,
  Secret,
  ServiceAccount,
} from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, type ServedApi, systemRandom } from "@keelson/apiserver";
import { type Client, connect } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { Lamp, startTestplaneEnvironment, type TestplaneEnvironment } from "./testing/testplane-environment.ts";

const namespace = "default";
let environment: TestplaneEnvironment;
let folder: string;
/** Another cluster. */
let far: ServedApi;
let farClient: Client;
let kubeconfig: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "clusters-"));
  [environment, far] = await Promise.all([
    startTestplaneEnvironment(),
    serveApi({ dataDir: folder, port: 0, clock: systemClock, random: systemRandom }),
  ]);
  farClient = await connect({ kubeconfig: far.kubeconfig, env: {} });
  kubeconfig = await readFile(far.kubeconfig, "utf8");
  await grant("tester", ["get"]);
  await createSecret("far", kubeconfig);
});
afterAll(async () => {
  await environment[Symbol.asyncDispose]();
  await farClient.close();
  await far.close();
  await rm(folder, { recursive: true });
});

const createSecret = (name: string, text: string) =>
  environment.client.create(Secret, {
    metadata: { name, namespace },
    data: { kubeconfig: Buffer.from(text).toString("base64") },
  });

const rbac = (kind: string, plural: string): ResourceType => ({
  ...{ group: "rbac.authorization.k8s.io", version: "v1", kind, plural, scope: "Namespaced" },
});

/** Creates a ServiceAccount that may apply ConfigMaps, and has these verbs on Secrets. */
async function grant(name: string, verbs: readonly string[]): Promise<void> {
  const metadata = { name, namespace };
  const rules = [
    { apiGroups: [""], resources: ["secrets"], verbs },
    { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "patch"] },
  ];
  await environment.client.create(ServiceAccount, { metadata });
  await environment.client.create(rbac("Role", "roles"), { metadata, rules } as unknown as KubernetesObject);
  await environment.client.create(rbac("RoleBinding", "rolebindings"), {
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
    subjects: [{ kind: "ServiceAccount", name, namespace }],
  } as unknown as KubernetesObject);
}

const configMap = (name: string, data: Record<string, string> = {}) => ({
  ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name } },
  data,
});

type Spec = IntegrationTest["spec"];
const start = (name: string, spec: Partial<Spec> & Pick<Spec, "steps">, secret = "far") =>
  environment.client.create(IntegrationTest, {
    metadata: { name, namespace },
    spec: { serviceAccountName: "tester", clusters: [{ name: "far", kubeconfigSecret: { name: secret } }], ...spec },
  });
const ended = async (name: string) =>
  (await environment.until(IntegrationTest, name, (each) => each?.status?.completionTime !== undefined))?.status;
const waits = (name: string, message: RegExp) =>
  environment.until(IntegrationTest, name, (each) => message.test(each?.status?.steps?.[0]?.message ?? ""));

describe("a step in another cluster", () => {
  it("applies, checks and deletes objects there, and none in the cluster of the test", async () => {
    await start("acts", {
      steps: [
        {
          name: "apply",
          cluster: "far",
          apply: { manifests: [configMap("acts", { from: "test" })] },
          expectations: { allOf: [{ cel: "object.data.from == 'test' && object.data.seen == 'yes'" }] },
          outputs: [{ name: "seen", cel: "object.data.seen" }],
        },
        {
          name: "mirror",
          apply: { manifests: [configMap("mirrored", { seen: "${{ outputs.seen }}" })] },
        },
      ],
      finalExpectations: [
        {
          name: "is still there",
          cluster: "far",
          resource: { selector: { apiVersion: "v1", kind: "ConfigMap", name: "acts" } },
          expectations: { allOf: [{ function: "ResourceExists" }] },
        },
      ],
    });
    await watched(farClient, ConfigMap, "acts", (each) => each !== undefined);
    await farClient.patch(ConfigMap, { namespace, name: "acts" }, { type: "merge", body: { data: { seen: "yes" } } });
    const status = await ended("acts");
    expect(status).toMatchObject({
      phase: "Succeeded",
      foreignObjects: [{ cluster: "far", kind: "ConfigMap", namespace, name: "acts" }],
    });
    expect((await environment.client.get(ConfigMap, { namespace, name: "mirrored" })).data).toEqual({ seen: "yes" });
    await expect(environment.client.get(ConfigMap, { namespace, name: "acts" })).rejects.toSatisfy(isNotFound);
    await environment.client.delete(IntegrationTest, { namespace, name: "acts" });
    await environment.until(IntegrationTest, "acts", (each) => each === undefined);
    await expect(farClient.get(ConfigMap, { namespace, name: "acts" })).rejects.toSatisfy(isNotFound);
  });

  it("discovers kinds that are defined while it waits", async () => {
    await start("discovers", {
      steps: [
        {
          name: "light",
          cluster: "far",
          apply: {
            manifests: [{ apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "desk" }, spec: { on: true } }],
          },
        },
      ],
    });
    await waits("discovers", /does not serve Lamp of example\.com\/v1/);
    await farClient.create(CustomResourceDefinition, Lamp.crd as never);
    expect(await ended("discovers")).toMatchObject({ phase: "Succeeded" });
    await environment.client.delete(IntegrationTest, { namespace, name: "discovers" });
    await environment.until(IntegrationTest, "discovers", (each) => each === undefined);
    await expect(farClient.get(Lamp, { namespace, name: "desk" })).rejects.toSatisfy(isNotFound);
  });

  it("waits for its Secret, and connects again when it changes", async () => {
    const steps = [{ name: "apply", cluster: "far", timeoutSeconds: 500, apply: { manifests: [configMap("waits")] } }];
    await start("waits", { steps }, "late");
    await waits("waits", /cluster far: Secret late not found/);
    await createSecret("late", kubeconfig.replace(/server: \S+/, "server: https://127.0.0.1:1"));
    await waits("waits", /127\.0\.0\.1:1/);
    const data = { kubeconfig: Buffer.from(kubeconfig).toString("base64") };
    await environment.client.patch(Secret, { namespace, name: "late" }, { type: "merge", body: { data } });
    expect(await ended("waits")).toMatchObject({ phase: "Succeeded" });
  });

  it("is refused a kubeconfig that runs programs or reads files, and one that its ServiceAccount may not read", async () => {
    const steps = [{ name: "apply", cluster: "far", timeoutSeconds: 500, apply: { manifests: [configMap("refused")] } }];
    const users = "users: [{name: u, user: {exec: {command: touch, apiVersion: client.authentication.k8s.io/v1}}}]";
    const clusters = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]";
    const contexts = "contexts: [{name: x, context: {cluster: c, user: u}}]";
    await createSecret("program", ["current-context: x", clusters, users, contexts].join("\n"));
    await start("program", { steps }, "program");
    await waits(
      "program",
      /cluster far: kubeconfig Secret program, key kubeconfig: users\[name=u\]\.user\.exec must not be set/,
    );
    await grant("outsider", ["create"]);
    await start("outsider", { serviceAccountName: "outsider", steps });
    await waits("outsider", /cluster far: ServiceAccount default\/outsider cannot get secrets in the namespace default/);
    for (const name of ["program", "outsider"]) await environment.client.delete(IntegrationTest, { namespace, name });
  });

  it("leaves its objects and says so if the kubeconfig no longer exists", async () => {
    await createSecret("lost", kubeconfig);
    await start("lost", { steps: [{ name: "apply", cluster: "far", apply: { manifests: [configMap("lost")] } }] }, "lost");
    expect(await ended("lost")).toMatchObject({ phase: "Succeeded" });
    await environment.client.delete(Secret, { namespace, name: "lost" });
    await environment.client.delete(IntegrationTest, { namespace, name: "lost" });
    await environment.until(IntegrationTest, "lost", (each) => each === undefined);
    await farClient.get(ConfigMap, { namespace, name: "lost" });
    const { items } = await environment.client.list<EventObject>(Event, { namespace });
    const event = items.find(({ reason }) => reason === "ObjectsLeft");
    expect(event?.message).toBe("cluster far: Secret lost not found; not deleted: ConfigMap lost");
  });
});
