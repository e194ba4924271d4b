import type { ResourceType } from "@keelson/api-machinery";
import { DaemonSet, Node, Pod, ReplicaSet, StatefulSet } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { createDaemonSetController } from "../daemonset/daemonset-controller.ts";
import { createReplicaSetController } from "../replicaset/replicaset-controller.ts";
import { createStatefulSetController } from "../statefulset/statefulset-controller.ts";
import { FailedPodBackoff } from "./failed-pod-backoff.ts";
import type { CachedPod } from "./pod-state.ts";

const podOf = (uid: string): CachedPod => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: uid, uid },
  spec: { containers: [] },
});

test("each replacement waits twice as long as the previous one, up to 5 minutes", () => {
  const backoff = new FailedPodBackoff();
  const delays: number[] = [];
  for (let now = 0, round = 0; round < 12; round++) {
    const delay = backoff.delay("a", [podOf(String(round))], now);
    delays.push(delay / 1_000);
    now += delay;
    expect(backoff.delay("a", [podOf(String(round))], now)).toBe(0);
  }
  expect(delays).toEqual([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
});

test("a workload without failures for 10 minutes starts from the beginning", () => {
  const backoff = new FailedPodBackoff();
  expect(backoff.delay("a", [podOf("1")], 0)).toBe(0);
  expect(backoff.delay("a", [podOf("2")], 400)).toBe(600);
  expect(backoff.delay("b", [podOf("3")], 400)).toBe(0);
  expect(backoff.delay("a", [podOf("2")], 600_000)).toBe(0);
  expect(backoff.delay("a", [podOf("4")], 600_400)).toBe(600);
});

test("failed Pods that have been replaced hold nothing back", () => {
  const backoff = new FailedPodBackoff();
  expect(backoff.delay("a", [], 0)).toBe(0);
  expect(backoff.delay("a", [podOf("1"), podOf("2")], 0)).toBe(0);
  expect(backoff.delay("a", [podOf("2")], 1)).toBe(0);
  expect(backoff.delay("a", [podOf("2"), podOf("3")], 1)).toBe(999);
});

const selector = { matchLabels: { app: "a" } };
const template = { metadata: { labels: { app: "a" } }, spec: { containers: [{ name: "c", image: "i" }] } };

test.each([
  [ReplicaSet, createReplicaSetController, { replicas: 1 }],
  [StatefulSet, createStatefulSetController, { serviceName: "s", replicas: 1 }],
  [DaemonSet, createDaemonSetController, {}],
] as const)("$kind: Pods that fail immediately are replaced after a delay", async (type, createController, spec) => {
  const clock = createVirtualClock();
  const environment = await startTestEnvironment({ clock });
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const manager = createManager({ name: "test", client, clock, logger: silentLogger, controllers: [createController()] });
  await manager.start();
  onTestFinished(() => manager.stop());
  await client.create(Node, { metadata: { name: "n" }, spec: {} });
  const namespace = "default";
  const workloads: ResourceType = type;
  const workload = { metadata: { namespace, name: "a" }, spec: { ...spec, selector, template } };
  await client.create(workloads, workload);
  const failed = new Set<string>();
  /** Fails the next new Pod. */
  const failNext = async (stepMs = 0): Promise<void> => {
    const next = async () => {
      await clock.advance(stepMs);
      const { items } = await client.list(Pod, { namespace });
      return items.find(({ metadata }) => !failed.has(metadata.uid ?? ""));
    };
    await expect.poll(next).toBeDefined();
    const { metadata } = (await next()) ?? {};
    failed.add(metadata?.uid ?? "");
    const key = { namespace, name: metadata?.name ?? "" };
    await client.patch(Pod, key, { type: "merge", body: { status: { phase: "Failed" } } }, { subresource: "status" });
  };
  await failNext();
  await failNext();
  const before = clock.monotonic();
  await failNext(100);
  expect(clock.monotonic() - before).toBeGreaterThanOrEqual(900);
});
