import { expect, it } from "vitest";
import { App } from "../../api/app.ts";
import { Group } from "../../api/group.ts";
import { readPlugin } from "../../plugin/read-plugin.ts";
import { redisPlugin } from "../../plugin/redis-plugin.ts";
import { validateApp } from "./validate-app.ts";

const runtime = { name: "redis", version: "7.2" };
const { name, version, data } = redisPlugin;
const plugin = readPlugin({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: `${name}-v${version}` }, data });
const apiVersion = "middleware.io/v1alpha1";
const app: App = {
  apiVersion,
  kind: App.kind,
  metadata: { name: "a" },
  spec: { plugin: runtime, runtime, tls: { mode: "require" } },
};

it.each([
  ["r1", "r2", 2, 1],
  ["r2", "r2", 1, 1],
  ["r2", "r2", 2, 0],
])(
  "requires TLS only after all Pods prefer it: %s of %s, generation %s",
  (currentRevision, updateRevision, observed, count) => {
    const spec = { ...{ componentRef: { name: "c" }, pluginRef: { name: "p" }, plugin: runtime, runtime, replicas: 3 } };
    const status = { currentRevision, updateRevision, observedGeneration: observed };
    const tls = { mode: "prefer" as const };
    const group: Group = {
      apiVersion,
      kind: Group.kind,
      metadata: { name: "g", generation: 2 },
      spec: { ...spec, tls },
      status,
    };
    const problems = validateApp(app, plugin, new Map(), [group]);
    expect(problems.filter(({ field }) => field === "spec.tls.mode")).toHaveLength(count);
  },
);

it.each([
  ["maxmemory 1mb\nreplicaof 10.0.0.1 6379\n#", "x", /must be a name of letters/],
  ["include /etc/passwd #", "x", /must be a name of letters/],
  ["maxmemory", "1\0", /must not contain a NUL/],
  ["Replica-Read-Only", "no", /must not be set/],
])("rejects the parameter %j with the value %j", (parameter, value, message) => {
  const spec = { ...app.spec, config: { redisConfig: { [parameter]: value } } };
  const problems = validateApp({ ...app, spec }, plugin, new Map(), []).filter(({ field }) => field.startsWith("spec.config."));
  expect(problems).toEqual([{ field: expect.stringContaining("spec.config."), message: expect.stringMatching(message) }]);
});
