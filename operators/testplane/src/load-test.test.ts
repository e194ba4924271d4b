import { isNotFound } from "@keelson/api-machinery";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LoadTest } from "./api/load-test.ts";
import { Lamp, startTestplaneEnvironment, type TestplaneEnvironment } from "./testing/testplane-environment.ts";

const namespace = "default";
let environment: TestplaneEnvironment;
beforeEach(async () => {
  environment = await startTestplaneEnvironment();
});
afterEach(() => environment[Symbol.asyncDispose]());

const lamp = { apiVersion: "example.com/v1", kind: "Lamp", metadata: { name: "desk" }, spec: { on: true } };
const workload = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "load" },
  spec: undefined,
  data: { command: "curl" },
};
const isReady = { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] };
const create = (spec: LoadTest["spec"]) => environment.client.create(LoadTest, { metadata: { name: "load", namespace }, spec });
const light = (phase: string) =>
  environment.client.applyStatus(Lamp, { metadata: { name: "desk", namespace }, status: { phase, url: "http://desk" } });

describe("a LoadTest", () => {
  it("waits for the target, injects values into the workload, and succeeds after its duration", async () => {
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
    await environment.until(LoadTest, "load", (each) => each?.status?.readyConditionStatus?.state === "Running");
    await expect(environment.client.get(ConfigMap, { namespace, name: "load" })).rejects.toSatisfy(isNotFound);
    await light("Lit");
    const running = await environment.until(LoadTest, "load", (each) => each?.status?.workloadApplied === true);
    expect(running?.status).toMatchObject({ phase: "Running", injectedValues: { TARGET_URL: "http://desk" } });
    const done = await environment.until(LoadTest, "load", (each) => each?.status?.workloadCleaned === true);
    expect(done?.status).toMatchObject({
      phase: "Succeeded",
      healthCheckStatus: { checkCount: 2, passCount: 2, failCount: 0 },
    });
    await expect(environment.client.get(ConfigMap, { namespace, name: "load" })).rejects.toSatisfy(isNotFound);
  });

  it("fails after failureThreshold consecutive failures and stops the load", async () => {
    const { spec: _, ...configMap } = workload;
    await create({
      target: { resource: { manifest: lamp } },
      workload: { resources: [{ manifest: configMap }] },
      expectations: { intervalSeconds: 1, failureThreshold: 1, ...isReady },
    });
    const done = await environment.until(LoadTest, "load", (each) => each?.status?.workloadCleaned === true);
    expect(done?.status).toMatchObject({
      phase: "Failed",
      reason: "HealthCheckFailed",
      healthCheckStatus: { checkCount: 1, failCount: 1, consecutiveFailures: 1 },
    });
    expect(done?.status?.message).toContain("status.phase is absent");
  });

  it("fails if a value is missing and starts no load", async () => {
    const { spec: _, ...configMap } = workload;
    await create({
      target: { resource: { manifest: lamp } },
      workload: {
        envInjection: [{ name: "URL", extract: { function: "FieldPath", params: { path: "status.url" } } }],
        resources: [{ manifest: configMap }],
      },
    });
    const done = await environment.until(LoadTest, "load", (each) => each?.status?.phase === "Failed");
    expect(done?.status?.reason).toBe("EnvInjectionFailed");
    await expect(environment.client.get(ConfigMap, { namespace, name: "load" })).rejects.toSatisfy(isNotFound);
  });
});
