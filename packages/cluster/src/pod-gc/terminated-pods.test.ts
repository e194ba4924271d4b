import { Pod } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import type { CachedPod } from "../workload/pod-state.ts";
import { createPodGarbageController } from "./pod-gc.ts";
import { surplusPods } from "./terminated-pods.ts";

const terminated = (name: string, minute: number, reason?: string): CachedPod => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, creationTimestamp: `2026-01-01T00:${String(minute).padStart(2, "0")}:00Z` },
  spec: { containers: [] },
  status: { phase: "Failed", ...(reason !== undefined && { reason }) },
});

const names = (pods: readonly CachedPod[]): readonly (string | undefined)[] => pods.map(({ metadata }) => metadata.name);

test("chooses evicted Pods first, then the oldest, then by name, and no more than the surplus", () => {
  const pods = [terminated("d", 9), terminated("b", 3), terminated("c", 3), terminated("e", 30, "Evicted"), terminated("a", 5)];
  expect(names(surplusPods(pods, 1, 10))).toEqual(["e", "b", "c", "a"]);
  expect(names(surplusPods(pods, 1, 2))).toEqual(["e", "b"]);
  expect(names(surplusPods(pods, 4, 10))).toEqual(["e"]);
  expect([5, 6, 0, -1].map((threshold) => surplusPods(pods, threshold, 10))).toEqual([[], [], [], []]);
});

test("deletes the oldest terminated Pods above the threshold, and no others", async () => {
  const environment = await startTestEnvironment();
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const create = async (name: string, phase: string): Promise<void> => {
    const key = { namespace: "default", name };
    await client.create(Pod, { metadata: key, spec: { containers: [{ name: "c", image: "i" }] } });
    await client.patch(Pod, key, { type: "merge", body: { status: { phase } } }, { subresource: "status" });
  };
  // More than one batch, all of the same second at most, so that names decide between those of one second.
  const all = Array.from({ length: 30 }, (_, index) => `p${String(index).padStart(2, "0")}`);
  for (const name of all) await create(name, "Succeeded");
  await create("a-pending", "Pending");
  const manager = createManager({
    name: "test",
    client,
    clock: systemClock,
    logger: silentLogger,
    controllers: [createPodGarbageController({ terminatedPodThreshold: 2 })],
  });
  await manager.start();
  onTestFinished(() => manager.stop());
  const left = async () => names((await client.list(Pod, { namespace: "default" })).items);
  await expect.poll(left, { timeout: 60_000 }).toEqual(["a-pending", "p28", "p29"]);
  await create("p30", "Failed");
  await expect.poll(left, { timeout: 60_000 }).toEqual(["a-pending", "p29", "p30"]);
});
