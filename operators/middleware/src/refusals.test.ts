import { type DeepReadonly, isStatusError, statusError } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { App } from "./api/app.ts";
import { readPlugin } from "./plugin/read-plugin.ts";
import { redisPlugin } from "./plugin/redis-plugin.ts";
import { createSimulation } from "./testing/simulation.ts";

const nodes = (part: object) => [{ name: "redis", groups: [{ name: "nodes", ...part }] }];
const spec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  components: nodes({ replicas: 3, storage: { size: "64Mi" } }),
};

describe("the API server refuses of an App", () => {
  let environment: TestEnvironment;
  let client: Client;
  beforeAll(async () => {
    environment = await startTestEnvironment({ crds: [App.crd] });
    client = createClient({ transport: environment.transport(), fieldManager: "test" });
  }, 60_000);
  afterAll(() => environment.stop());

  it.each<[string, object, string]>([
    ["no plugin", { plugin: undefined }, "spec.plugin"],
    ["an empty plugin's name", { plugin: { name: "", version: "1" } }, "spec.plugin.name"],
    ["no version of the runtime", { runtime: { name: "redis" } }, "spec.runtime.version"],
    ["monitoring on port 0", { monitoring: { enabled: true, port: 0 } }, "spec.monitoring.port"],
    ["monitoring each something", { monitoring: { interval: "often" } }, "spec.monitoring.interval"],
    ["a timeout that is no duration", { changePolicy: { timeout: "5 minutes" } }, "spec.changePolicy.timeout"],
    ["a negative timeout", { changePolicy: { timeout: "-5s" } }, "spec.changePolicy.timeout"],
    ["fewer than no retries", { changePolicy: { maxRetries: -1 } }, "spec.changePolicy.maxRetries"],
    ["an order that there is not", { changePolicy: { order: "p1-last" } }, "spec.changePolicy.order"],
    ["fewer than no replicas", { components: nodes({ replicas: -1 }) }, "spec.components[0].groups[0].replicas"],
    [
      "a size that is no amount",
      { components: nodes({ storage: { size: "big" } }) },
      "spec.components[0].groups[0].storage.size",
    ],
    ["a volume without a size", { components: nodes({ storage: {} }) }, "spec.components[0].groups[0].storage.size"],
    ["a component twice", { components: [...nodes({}), ...nodes({})] }, "spec.components[1]"],
    ["a name that is no name", { components: [{ name: "../redis" }] }, "spec.components[0].name"],
    ["a backup at no time", { backup: { schedule: "daily" } }, "spec.backup.schedule"],
  ])("%s", async (_, part, field) => {
    const create = client.create(App, {
      metadata: { name: "bad", namespace: "default" },
      spec: { ...spec, ...part } as App["spec"],
    });
    await expect(create).rejects.toSatisfy((error) => isStatusError(error, "Invalid") && error.message.includes(field));
  });
});

/** The Redis plugin with one text in the place of another, in any of its documents. */
function pluginWith(from: string | RegExp, to: string): DeepReadonly<ConfigMapObject> {
  const data = Object.fromEntries(Object.entries(redisPlugin.data).map(([key, text]) => [key, text.replace(from, to)]));
  return { apiVersion: "v1", kind: ConfigMap.kind, metadata: { name: "redis-v1.0.0" }, data } as ConfigMapObject;
}

describe("a plugin is refused", () => {
  it.each<[string, string | RegExp, string, string]>([
    [
      "for a component twice in an order, which would be a cycle",
      "update: [redis]",
      "update: [redis, [redis]]",
      'orders.update: "redis" is there twice',
    ],
    [
      "for an unknown component in an order",
      "update: [redis]",
      "update: [redis, proxy]",
      'orders.update: there is no component "proxy"',
    ],
    ["for an unknown scenario", "update: [redis]", "upgarde: [redis]", "orders.upgarde: there is no such scenario"],
    ["for a template that does not parse", "{{- with .Affinity }}", "{{- with }}", "templates[0]: pod.yaml:"],
    [
      "for a template that is not there",
      "key: pod.yaml",
      "key: pods.yaml",
      'templates[0].key: the ConfigMap has no "pods.yaml"',
    ],
    [
      "for a kind of template that there is not",
      "type: Pod,",
      "type: Deployment,",
      'templates[0].type: "Deployment" has to be one of Pod',
    ],
    [
      "for a parameter of no class",
      "databases: cold",
      "databases: lukewarm",
      'parameters.databases: "lukewarm" has to be hot, cold or forbidden',
    ],
    ["without a version", /version: 1.0.0/, "", "version: is missing"],
    ["without components", /components:\n.*\n.*\n.*\n/, "components: []\n", "components: at least one is needed"],
    [
      "for a group twice",
      "        - {name: nodes, replicas: 3, storage: {size: 1Gi}}",
      "        - {name: nodes}\n        - {name: nodes}",
      'components[0].groups: "nodes" is there twice',
    ],
    ["for a name that would leave its place", "- name: redis\n", "- name: ../redis\n", "components[0].name: "],
    ["for YAML that is none", "kind: Plugin", "kind: [", 'data["plugin.yaml"]'],
  ])("%s", (_, from, to, message) => {
    expect(() => readPlugin(pluginWith(from, to))).toThrow(message);
  });
});

describe("an App says in its status what cannot be", () => {
  const accepted = async (more: object) => {
    const simulation = createSimulation();
    simulation.create({ ...spec, ...more });
    await simulation.run();
    expect(simulation.store.all("Pod")).toEqual([]);
    expect(simulation.status().phase).toBe("Failed");
    return simulation.status().conditions?.find((each) => each.type === "Accepted");
  };

  it.each<[string, object, string]>([
    ["a plugin that there is not", { plugin: { name: "kafka", version: "2" } }, "spec.plugin: there is no ConfigMap kafka-v2"],
    ["a runtime that the plugin does not know", { runtime: { name: "memcached", version: "7.0" } }, "spec.runtime.name: "],
    ["a version that it does not know", { runtime: { name: "redis", version: "5.0" } }, "spec.runtime.version: "],
    [
      "a component that it does not have",
      { components: [{ name: "proxy" }] },
      'spec.components[0].name: the plugin has no component "proxy"',
    ],
    [
      "a group that it does not have",
      { components: [{ name: "redis", groups: [{ name: "spare" }] }] },
      "spec.components[0].groups[0].name: ",
    ],
    [
      "a parameter that would break the topology",
      { config: { redisConfig: { port: "7000" } } },
      "spec.config.port: is not for users",
    ],
  ])("%s", async (_, more, message) => {
    const condition = await accepted(more);
    expect(condition).toMatchObject({ status: "False", reason: "Invalid" });
    expect(condition?.message).toContain(message);
  });

  it.each<[string, object, string]>([
    [
      "a volume that is to shrink",
      { components: nodes({ replicas: 3, storage: { size: "32Mi" } }) },
      "a volume cannot shrink from 64Mi to 32Mi",
    ],
    [
      "a version that no way leads to",
      { runtime: { name: "redis", version: "6.2" } },
      "the plugin knows no way from 7.0 to 6.2",
    ],
  ])("%s, and what runs goes on", async (_, change, message) => {
    const simulation = createSimulation();
    simulation.create(spec);
    await simulation.run();
    simulation.change(change);
    await simulation.run();
    expect(simulation.status().conditions?.find((each) => each.type === "Accepted")?.message).toContain(message);
    expect(simulation.store.all("Pod")).toHaveLength(3);
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject({ runtime: { version: "7.0" } });
  });

  it.each<[string, string | RegExp, string, string]>([
    ["a Pod without an image", /image: .*/, 'image: ""', "Pod: spec.containers[0].image: is missing"],
    [
      "port 0",
      "containerPort: {{ .Values.port }}",
      "containerPort: 0",
      "Pod: spec.containers[0].ports[0].containerPort: 0 has to be from 1 to 65535",
    ],
    [
      "a Service's port that is none",
      "port: {{ .Values.port }}, targetPort",
      "port: 70000, targetPort",
      "Service: spec.ports[0].port: 70000",
    ],
    ["a key that is not there", "{{ .AccessSecret }}", "{{ .NoSuchKey }}", "pod.yaml:"],
  ])("%s in what a template renders to: the task fails at once and names the field", async (_, from, to, message) => {
    const simulation = createSimulation();
    simulation.store.edit("ConfigMap", "redis-v1.0.0", (each) => ({
      ...each,
      ...(pluginWith(from, to) as { data: Record<string, string> }),
    }));
    simulation.create(spec);
    await simulation.run();
    const [task] = simulation.status().plan?.tasks ?? [];
    expect(task).toMatchObject({ status: "failed", errorClass: "Config", attempt: 1 });
    expect(task?.error).toContain(message);
    expect(simulation.status().message).toContain(message);
    const ready = (simulation.store.all("Group")[0]?.status as { conditions?: { type: string }[] } | undefined)?.conditions;
    expect(ready).toMatchObject([{ type: "Ready", status: "False", reason: "OperationFailed" }]);
    expect(simulation.store.all("Pod")).toEqual([]);
  });

  it("what the API server forbids: the task fails and says so", async () => {
    const simulation = createSimulation();
    simulation.refuse = (action) =>
      action.startsWith("apply Pod") ? statusError("Forbidden", "exceeded quota: pods") : undefined;
    simulation.create(spec);
    // Pods are tried again and again, so that it goes on by itself once there is room; the task is over.
    await simulation.run(() => simulation.status().plan?.outcome === "Failed");
    await simulation.run(() => simulation.status().phase === "Degraded");
    expect(simulation.status().plan?.tasks[0]).toMatchObject({ status: "failed", errorClass: "Forbidden", attempt: 1 });
    expect(simulation.status().message).toContain("exceeded quota: pods");
  });
});
