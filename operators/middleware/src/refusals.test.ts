import { type DeepReadonly, isStatusError, statusError } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { App } from "./api/app.ts";
import { validateApp } from "./controllers/plan/validate-app.ts";
import { readPlugin } from "./plugin/read-plugin.ts";
import { redisPlugin } from "./plugin/redis-plugin.ts";
import { createSimulation } from "./testing/simulation.ts";

const nodes = (part: object) => [{ name: "redis", groups: [{ name: "nodes", ...part }] }];
const spec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  components: nodes({ replicas: 3, storage: { size: "64Mi" } }),
};

describe("the API server rejects an App with", () => {
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
    ["an invalid monitoring interval", { monitoring: { interval: "often" } }, "spec.monitoring.interval"],
    ["a timeout that is not a duration", { changePolicy: { timeout: "5 minutes" } }, "spec.changePolicy.timeout"],
    ["a negative timeout", { changePolicy: { timeout: "-5s" } }, "spec.changePolicy.timeout"],
    ["negative retries", { changePolicy: { maxRetries: -1 } }, "spec.changePolicy.maxRetries"],
    ["an unknown order", { changePolicy: { order: "p1-last" } }, "spec.changePolicy.order"],
    ["negative replicas", { components: nodes({ replicas: -1 }) }, "spec.components[0].groups[0].replicas"],
    [
      "a size that is not a quantity",
      { components: nodes({ storage: { size: "big" } }) },
      "spec.components[0].groups[0].storage.size",
    ],
    ["a volume without a size", { components: nodes({ storage: {} }) }, "spec.components[0].groups[0].storage.size"],
    ["a duplicate component", { components: [...nodes({}), ...nodes({})] }, "spec.components[1]"],
    ["an invalid name", { components: [{ name: "../redis" }] }, "spec.components[0].name"],
    ["an invalid backup schedule", { backup: { schedule: "daily" } }, "spec.backup.schedule"],
  ])("%s", async (_, part, field) => {
    const create = client.create(App, {
      metadata: { name: "bad", namespace: "default" },
      spec: { ...spec, ...part } as App["spec"],
    });
    await expect(create).rejects.toSatisfy((error) => isStatusError(error, "Invalid") && error.message.includes(field));
  });
});

/** The Redis plugin with a text replaced in all of its documents. */
function pluginWith(from: string | RegExp, to: string): DeepReadonly<ConfigMapObject> {
  const data = Object.fromEntries(Object.entries(redisPlugin.data).map(([key, text]) => [key, text.replace(from, to)]));
  return { apiVersion: "v1", kind: ConfigMap.kind, metadata: { name: "redis-v1.0.0" }, data } as ConfigMapObject;
}

/** The Redis plugin in a version that runs its Pods without agents. */
function withoutAgents(version: string): ConfigMapObject {
  const { data = {} } = pluginWith("- name: redis\n", "- name: redis\n      agent: false\n");
  const document = (data["plugin.yaml"] ?? "").replace("version: 1.0.0", `version: ${version}`);
  const metadata = { name: `redis-v${version}`, namespace: "default" };
  return { apiVersion: "v1", kind: ConfigMap.kind, metadata, data: { ...data, "plugin.yaml": document } };
}

describe("a plugin is rejected", () => {
  it.each<[string, string | RegExp, string, string]>([
    [
      "for a duplicate component in an order",
      "update: [redis]",
      "update: [redis, [redis]]",
      'orders.update: "redis" must be unique',
    ],
    [
      "for an unknown component in an order",
      "update: [redis]",
      "update: [redis, proxy]",
      'orders.update: unknown component "proxy"',
    ],
    ["for an unknown scenario", "update: [redis]", "upgarde: [redis]", "orders.upgarde: unknown scenario"],
    ["for a template that does not parse", "{{- with .Affinity }}", "{{- with }}", "templates[0]: pod.yaml:"],
    ["for a missing template", "key: pod.yaml", "key: pods.yaml", 'templates[0].key: the ConfigMap has no key "pods.yaml"'],
    [
      "for an unknown kind of template",
      "type: Pod,",
      "type: Deployment,",
      'templates[0].type: "Deployment" must be one of Pod',
    ],
    [
      "for an unknown class of parameter",
      "databases: cold",
      "databases: lukewarm",
      'parameters.databases: "lukewarm" must be hot, cold or forbidden',
    ],
    [
      "for an agent that is neither true nor false",
      "- name: redis\n",
      "- name: redis\n      agent: none\n",
      "components[0].agent: ",
    ],
    ["without a version", /version: 1.0.0/, "", "version: required"],
    ["without components", /components:\n.*\n.*\n.*\n/, "components: []\n", "components: must have at least one component"],
    [
      "for a duplicate group",
      "        - {name: nodes, replicas: 3, storage: {size: 1Gi}}",
      "        - {name: nodes}\n        - {name: nodes}",
      'components[0].groups: "nodes" must be unique',
    ],
    ["for a path as a name", "- name: redis\n", "- name: ../redis\n", "components[0].name: "],
    ["for invalid YAML", "kind: Plugin", "kind: [", 'data["plugin.yaml"]'],
  ])("%s", (_, from, to, message) => {
    expect(() => readPlugin(pluginWith(from, to))).toThrow(message);
  });
});

describe("an App reports in its status", () => {
  const accepted = async (more: object) => {
    const simulation = createSimulation();
    simulation.create({ ...spec, ...more });
    await simulation.run();
    expect(simulation.store.all("Pod")).toEqual([]);
    expect(simulation.status().phase).toBe("Failed");
    return simulation.status().conditions?.find((each) => each.type === "Accepted");
  };

  it.each<[string, object, string]>([
    ["a missing plugin", { plugin: { name: "kafka", version: "2" } }, "spec.plugin: ConfigMap kafka-v2 not found"],
    ["a runtime that the plugin does not support", { runtime: { name: "memcached", version: "7.0" } }, "spec.runtime.name: "],
    ["a version that the plugin does not support", { runtime: { name: "redis", version: "5.0" } }, "spec.runtime.version: "],
    ["an unknown component", { components: [{ name: "proxy" }] }, 'spec.components[0].name: unknown component "proxy"'],
    [
      "an unknown group",
      { components: [{ name: "redis", groups: [{ name: "spare" }] }] },
      "spec.components[0].groups[0].name: ",
    ],
    [
      "a parameter that would break the topology",
      { config: { redisConfig: { port: "7000" } } },
      "spec.config.port: must not be set",
    ],
    [
      "several Pods of a replicated program replaced at the same time",
      { components: nodes({ rollingUpdate: { maxUnavailable: 2 } }) },
      "spec.components.redis.nodes.rollingUpdate.maxUnavailable: 2 must be 1",
    ],
    ["that parameter in capitals", { config: { redisConfig: { PORT: "7000" } } }, "spec.config.PORT: must not be set"],
  ])("%s", async (_, more, message) => {
    const condition = await accepted(more);
    expect(condition).toMatchObject({ status: "False", reason: "Invalid" });
    expect(condition?.message).toContain(message);
  });

  it.each<[string, string, string, object, string]>([
    [
      "users of a program without users",
      "configKey:",
      "users: false\n  configKey:",
      { users: [{ name: "a", rules: [] }] },
      "spec.users: must be empty",
    ],
    [
      "a Secret that two users with a login in it share",
      "configKey:",
      "users: {defaultLogin: admin}\n  configKey:",
      { users: ["a", "b"].map((name) => ({ name, rules: [], passwordSecret: { name: "shared" } })) },
      "spec.users[1].passwordSecret.name: must not be shared",
    ],
    [
      "a user with the Secret of the default user",
      "configKey:",
      "users: {defaultLogin: admin}\n  configKey:",
      { users: [{ name: "a", rules: [], passwordSecret: { name: "cache-access" } }] },
      "spec.users[0].passwordSecret.name: must not be cache-access",
    ],
    [
      "a Secret for TLS with the name of one of the operator",
      "",
      "",
      { tls: { mode: "prefer", secretName: "cache-ca" } },
      "spec.tls.secretName: must not be cache-ca",
    ],
    [
      "high availability of Pods without an agent",
      "- name: redis\n",
      "- name: redis\n      agent: false\n",
      { components: nodes({ highAvailability: { quorum: true } }) },
      "spec.components.redis.nodes.highAvailability: must not be set",
    ],
  ])("%s", (_, from, to, more, message) => {
    const app: App = {
      apiVersion: "middleware.io/v1alpha1",
      kind: App.kind,
      metadata: { name: "cache" },
      spec: { ...spec, ...more },
    };
    const [problem, ...others] = validateApp(app, readPlugin(pluginWith(from, to)), new Map(), []);
    expect(`${problem?.field}: ${problem?.message}`).toContain(message);
    expect(others).toEqual([]);
  });

  it.each<[string, object, string]>([
    [
      "a shrinking volume",
      { components: nodes({ replicas: 3, storage: { size: "32Mi" } }) },
      "a volume cannot shrink from 64Mi to 32Mi",
    ],
    [
      "an unsupported upgrade",
      { runtime: { name: "redis", version: "6.2" } },
      "the plugin does not support the upgrade from 7.0 to 6.2",
    ],
    [
      "a version of the plugin that runs its Pods without agents",
      { plugin: { name: "redis", version: "1.1.0" } },
      'spec.plugin.version: "1.1.0" runs the Pods of component redis without agents, but those of group cache-redis-nodes run with: must not change',
    ],
  ])("%s, and keeps running", async (_, change, message) => {
    const simulation = createSimulation();
    simulation.store.create("ConfigMap", withoutAgents("1.1.0"));
    simulation.create(spec);
    await simulation.run();
    simulation.change(change);
    await simulation.run();
    expect(simulation.status().conditions?.find((each) => each.type === "Accepted")?.message).toContain(message);
    expect(simulation.store.all("Pod")).toHaveLength(3);
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject({ runtime: { version: "7.0" } });
  });

  it("that its plugin was edited to run Pods without agents, and keeps running with one primary", async () => {
    const simulation = createSimulation();
    simulation.create(spec);
    await simulation.run();
    const uids = () => simulation.store.all("Pod").map(({ metadata }) => metadata.uid);
    const before = uids();
    const edit = (data: object) =>
      simulation.store.edit("ConfigMap", "redis-v1.0.0", (each) => ({ ...each, data: { ...data } }));
    edit(withoutAgents("1.0.0").data ?? {});
    simulation.change({ components: nodes({ replicas: 4, storage: { size: "64Mi" } }) });
    await simulation.run();
    const message = 'spec.plugin.version: "1.0.0" runs the Pods of component redis without agents';
    expect(simulation.status().message).toContain(message);
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({
      phase: "Degraded",
      message: expect.stringContaining("the plugin runs Pods without agents, but those of this group run with agents"),
    });
    expect(uids()).toEqual(before);
    edit(redisPlugin.data);
    await simulation.run();
    expect(simulation.status()).toMatchObject({ phase: "Running" });
    expect(uids().slice(0, 3)).toEqual(before);
  });

  it.each<[string, string | RegExp, string, string]>([
    ["a Pod without an image", /image: .*/, 'image: ""', "Pod: spec.containers[0].image: required"],
    [
      "port 0",
      "containerPort: {{ .Values.port }}",
      "containerPort: 0",
      "Pod: spec.containers[0].ports[0].containerPort: 0 must be between 1 and 65535",
    ],
    [
      "an invalid port of a Service",
      "port: {{ .Values.port }}, targetPort",
      "port: 70000, targetPort",
      "Service: spec.ports[0].port: 70000",
    ],
    ["a missing key", "{{ .AccessSecret }}", "{{ .NoSuchKey }}", "pod.yaml:"],
  ])("%s in a rendered template: the task fails immediately and names the field", async (_, from, to, message) => {
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

  it("a write that the API server forbids: the task fails with the message", async () => {
    const simulation = createSimulation();
    simulation.refuse = (action) =>
      action.startsWith("apply Pod") ? statusError("Forbidden", "exceeded quota: pods") : undefined;
    simulation.create(spec);
    // The controller keeps retrying the Pods, so that it recovers by itself; the task has failed.
    await simulation.run(() => simulation.status().plan?.outcome === "Failed");
    await simulation.run(() => simulation.status().phase === "Degraded");
    expect(simulation.status().plan?.tasks[0]).toMatchObject({ status: "failed", errorClass: "Forbidden", attempt: 1 });
    expect(simulation.status().message).toContain("exceeded quota: pods");
  });
});
