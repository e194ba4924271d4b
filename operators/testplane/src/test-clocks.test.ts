import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import { ConfigMap, Pod } from "@keelson/api-machinery/kinds";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { LoadTest } from "./api/load-test.ts";
import { startTestplaneEnvironment, type TestplaneEnvironment } from "./testing/testplane-environment.ts";

const namespace = "default";
const hourMs = 3_600_000;

let aheadMs: number;
let environment: TestplaneEnvironment;
beforeEach(async () => {
  aheadMs = 0;
  const clock: Clock = {
    now: () => systemClock.now() + aheadMs,
    monotonic: () => systemClock.monotonic(),
    setTimer: (...timer) => systemClock.setTimer(...timer),
  };
  environment = await startTestplaneEnvironment(undefined, [], clock);
});
afterEach(() => environment[Symbol.asyncDispose]());

const write = (name: string, data: Record<string, string>) =>
  environment.client.apply(ConfigMap, { metadata: { name, namespace }, data });
/** A step that waits for `data.on` of a ConfigMap. */
const waits = (name: string, more: object = {}) => ({
  name: "waits",
  resource: { selector: { apiVersion: "v1", kind: "ConfigMap", name } },
  expectations: { allOf: [{ cel: "object != null && has(object.data) && 'on' in object.data" }] },
  ...more,
});
const start = (name: string, spec: IntegrationTest["spec"]) =>
  environment.client.create(IntegrationTest, { metadata: { name, namespace }, spec });
const until = (name: string, isReached: (status: IntegrationTest["status"]) => boolean) =>
  environment.until(IntegrationTest, name, (test) => isReached(test?.status as IntegrationTest["status"]));
const ended = async (name: string) => (await until(name, (status) => status?.completionTime !== undefined))?.status;
const messageOf = (status: IntegrationTest["status"]): string => status?.steps?.[0]?.message ?? "";

describe("a wall clock that is set while a test runs", () => {
  it("does not expire a step early", async () => {
    await start("ahead", { steps: [waits("ahead")] });
    await until("ahead", (status) => messageOf(status) !== "");
    aheadMs = hourMs;
    await write("ahead", { off: "" });
    await write("ahead", { on: "" });
    const status = await ended("ahead");
    expect(status).toMatchObject({ verdict: "Passed", roundDurations: { maxSeconds: expect.any(Number) } });
    expect(status?.roundDurations?.maxSeconds).toBeLessThan(600);
  });

  it("does not expire a step late", async () => {
    await start("behind", { steps: [waits("behind", { timeoutSeconds: 2 })] });
    await until("behind", (status) => messageOf(status) !== "");
    aheadMs = -hourMs;
    await write("behind", { off: "" });
    expect(await ended("behind")).toMatchObject({ verdict: "Timeout" });
  });

  it("does not repeat a webhook late", async () => {
    let calls = 0;
    const server = createServer((_, response) => {
      calls++;
      response.setHeader("content-type", "application/json").end(JSON.stringify({ passed: calls > 1 }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    try {
      const expectations = { allOf: [{ function: "Ask", webhook: `http://127.0.0.1:${port}/` }] };
      aheadMs = hourMs;
      await start("webhook", { steps: [{ ...waits("webhook"), expectations }] });
      await until("webhook", (status) => messageOf(status).includes("passed: false"));
      aheadMs = 0;
      expect(await ended("webhook")).toMatchObject({ verdict: "Passed" });
    } finally {
      server.close();
    }
  });

  it("does not distrust Pods that have run for long enough", async () => {
    await start("pods", {
      steps: [
        { ...waits("none"), name: "first" },
        { ...waits("none"), name: "pod", ...podIsReady },
      ],
    });
    await until("pods", (status) => messageOf(status) !== "");
    aheadMs = hourMs;
    await environment.client.create(Pod, {
      metadata: { name: "web", namespace },
      spec: { containers: [{ name: "main", image: "web" }] },
    });
    const startedAt = new Date(systemClock.now() + hourMs - 60_000).toISOString();
    const body = {
      status: {
        phase: "Running",
        conditions: [{ type: "Ready", status: "True" }],
        containerStatuses: [{ name: "main", ready: true, state: { running: { startedAt } }, ...image }],
      },
    };
    await environment.client.patch(Pod, { namespace, name: "web" }, { type: "merge", body }, { subresource: "status" });
    await write("none", { on: "" });
    expect(await ended("pods")).toMatchObject({ verdict: "Passed" });
  });

  it("does not change the duration of a load", async () => {
    const allOf = [{ function: "ResourceExists" }];
    const manifest = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name } });
    await environment.client.create(LoadTest, {
      metadata: { name: "load", namespace },
      spec: {
        target: { resource: { manifest: manifest("target") } },
        workload: { resources: [{ manifest: manifest("workload") }] },
        healthCheck: { intervalSeconds: 1, allOf },
        durationSeconds: 3,
      },
    });
    await environment.until(LoadTest, "load", (test) => test?.status?.phase === "Running");
    aheadMs = -hourMs;
    const done = await environment.until(LoadTest, "load", (test) => test?.status?.completionTime !== undefined);
    expect(done?.status).toMatchObject({ verdict: "Passed" });
  });
});

const podIsReady = {
  resource: { selector: { apiVersion: "v1", kind: "Pod", name: "web" } },
  expectations: { allOf: [{ function: "PodReady" }], timeoutSeconds: 20 },
};
const image = { image: "web", imageID: "", restartCount: 0 };
