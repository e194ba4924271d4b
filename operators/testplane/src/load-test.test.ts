import { isNotFound } from "@keelson/api-machinery";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LoadTest } from "./api/load-test.ts";
import { Lamp, startTested, type Tested } from "./testing/tested.ts";

const namespace = "default";
let tested: Tested;
beforeEach(async () => {
  tested = await startTested();
});
afterEach(() => tested[Symbol.asyncDispose]());

const lamp = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "desk" }, spec: { on: true } };
const workload = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "load" },
  spec: undefined,
  data: { command: "curl" },
};
const isReady = { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] };
const create = (spec: LoadTest["spec"]) => tested.client.create(LoadTest, { metadata: { name: "load", namespace }, spec });
const light = (phase: string) =>
  tested.client.applyStatus(Lamp, { metadata: { name: "desk", namespace }, status: { phase, url: "http://desk" } });

describe("a LoadTest", () => {
  it("waits for its target, injects values into its workload, and succeeds when its time has come", async () => {
    const { spec: _, ...configMap } = workload;
    await create({
      target: { resource: { manifest: lamp }, readyCondition: isReady },
      workload: {
        envInjection: [{ name: "TARGET_URL", extract: { function: "FieldPath", params: { path: "status.url" } } }],
        resources: [{ manifest: { items: [configMap, { ...lamp, metadata: { name: "pod-like" }, spec: {} }] } }],
      },
      healthCheck: { intervalSeconds: 1, ...isReady },
      durationSeconds: 1,
    });
    await tested.until(LoadTest, "load", (each) => each?.status?.readyConditionStatus?.state === "Running");
    await expect(tested.client.get(ConfigMap, { namespace, name: "load" })).rejects.toSatisfy(isNotFound);
    await light("Lit");
    const running = await tested.until(LoadTest, "load", (each) => each?.status?.workloadApplied === true);
    expect(running?.status).toMatchObject({ phase: "Running", injectedValues: { TARGET_URL: "http://desk" } });
    const done = await tested.until(LoadTest, "load", (each) => each?.status?.workloadCleaned === true);
    expect(done?.status).toMatchObject({
      phase: "Succeeded",
      healthCheckStatus: { checkCount: 1, passCount: 1, failCount: 0 },
    });
    await expect(tested.client.get(ConfigMap, { namespace, name: "load" })).rejects.toSatisfy(isNotFound);
  });

  it("fails when as many checks in a row failed as its threshold says, and stops the load", async () => {
    const { spec: _, ...configMap } = workload;
    await create({
      target: { resource: { manifest: lamp } },
      workload: { resources: [{ manifest: configMap }] },
      expectations: { intervalSeconds: 1, failureThreshold: 1, ...isReady },
    });
    const done = await tested.until(LoadTest, "load", (each) => each?.status?.workloadCleaned === true);
    expect(done?.status).toMatchObject({
      phase: "Failed",
      reason: "HealthCheckFailed",
      healthCheckStatus: { checkCount: 1, failCount: 1, consecutiveFailures: 1 },
    });
    expect(done?.status?.message).toContain("status.phase is absent");
  });

  it("fails where a value is not to be found, and starts no load", async () => {
    const { spec: _, ...configMap } = workload;
    await create({
      target: { resource: { manifest: lamp } },
      workload: {
        envInjection: [{ name: "URL", extract: { function: "FieldPath", params: { path: "status.url" } } }],
        resources: [{ manifest: configMap }],
      },
    });
    const done = await tested.until(LoadTest, "load", (each) => each?.status?.phase === "Failed");
    expect(done?.status?.reason).toBe("EnvInjectionFailed");
    await expect(tested.client.get(ConfigMap, { namespace, name: "load" })).rejects.toSatisfy(isNotFound);
  });
});
