import { Node, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { createManager, silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { createPodGarbageController, decideLostPod } from "./pod-gc.ts";

const since = 1_000;
const pod = (nodeName: string | undefined, isTerminating = false): PodObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "p", ...(isTerminating ? { deletionTimestamp: "2026-01-01T00:00:10Z" } : {}) },
  spec: { containers: [], ...(nodeName === undefined ? {} : { nodeName }) },
});

test("Pods are deleted 40 s after their node was found missing", () => {
  expect(decideLostPod(pod("n"), undefined, since + 90_000)).toEqual({ kind: "keep" });
  expect(decideLostPod(pod("n"), since, since + 39_000)).toEqual({ kind: "wait", ms: 1_000 });
  expect(decideLostPod(pod("n"), since, since + 40_000)).toEqual({ kind: "delete", why: "node-deleted" });
  expect(decideLostPod(pod("n", true), undefined, since + 90_000)).toEqual({ kind: "keep" });
});

test("terminating Pods that were never bound are deleted", () => {
  expect(decideLostPod(pod(undefined), undefined, since)).toEqual({ kind: "keep" });
  expect(decideLostPod(pod(undefined, true), undefined, since)).toEqual({ kind: "delete", why: "never-bound" });
});

test("a Pod that was never bound has failed before it is deleted, including for controllers that keep it with a finalizer", async () => {
  const environment = await startTestEnvironment();
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const manager = createManager({
    ...{ name: "test", client, clock: environment.clock, logger: silentLogger },
    controllers: [createPodGarbageController()],
  });
  await manager.start();
  onTestFinished(() => manager.stop());
  const key = { namespace: "default", name: "kept" };
  const spec = { containers: [{ name: "c", image: "i" }] };
  await client.create(Pod, { metadata: { ...key, finalizers: ["batch.kubernetes.io/job-tracking"] }, spec });
  await client.delete(Pod, key);
  const failed = await watched(client, Pod, "kept", (pod) => pod?.status?.phase === "Failed");
  expect(failed?.status?.conditions?.find(({ type }) => type === "DisruptionTarget")).toBeUndefined();
});

test("a Pod is kept if its node registers within 40 s, also again, and deleted otherwise", async () => {
  const clock = createVirtualClock();
  const environment = await startTestEnvironment({ clock });
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const manager = createManager({
    name: "test",
    client,
    clock,
    logger: silentLogger,
    controllers: [createPodGarbageController()],
  });
  await manager.start();
  onTestFinished(() => manager.stop());
  const bind = (name: string, nodeName: string) =>
    client.create(Pod, {
      metadata: { namespace: "default", name },
      spec: { nodeName, containers: [{ name: "c", image: "i" }] },
    });
  await bind("early", "late-node");
  await bind("lost", "missing-node");
  await client.create(Node, { metadata: { name: "late-node" }, spec: {} });
  const watch = await client.watch(Pod, { namespace: "default" });
  const last: unknown[] = [];
  const deletions = (async function* () {
    for await (const { type, object } of watch) {
      if (type !== "DELETED") continue;
      last.push([object.status?.phase, object.status?.conditions?.find((each) => each.type === "DisruptionTarget")?.reason]);
      yield object.metadata.name;
    }
  })();
  // The controller may see a change only after a step of the clock, so its grace period starts then.
  const nextDeletion = async (): Promise<unknown> => {
    const deleted: unknown[] = [];
    void deletions.next().then(({ value }) => deleted.push(value));
    await expect
      .poll(async () => {
        await clock.advance(41_000);
        return deleted.length;
      })
      .toBe(1);
    return deleted[0];
  };
  expect(await nextDeletion()).toBe("lost");
  const nodes = await client.watch(Node, {});
  const seen = nodes[Symbol.asyncIterator]();
  await seen.next();
  await client.delete(Node, { name: "late-node" });
  await seen.next();
  await clock.advance(39_000);
  await client.create(Node, { metadata: { name: "late-node" }, spec: {} });
  await seen.next();
  await clock.advance(39_000);
  expect(await client.get(Pod, { namespace: "default", name: "early" })).toMatchObject({ metadata: { name: "early" } });
  await client.delete(Node, { name: "late-node" });
  await seen.next();
  expect(await nextDeletion()).toBe("early");
  expect(last).toEqual(Array.from({ length: 2 }, () => ["Failed", "DeletionByPodGC"]));
  nodes.close();
  watch.close();
});
