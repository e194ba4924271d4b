import { Node, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { decideLostPod, podGarbageController } from "./pod-gc.ts";

const created = Date.parse("2026-01-01T00:00:00Z");
const pod = (nodeName: string | undefined, isTerminating = false): PodObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    name: "p",
    creationTimestamp: "2026-01-01T00:00:00Z",
    ...(isTerminating ? { deletionTimestamp: "2026-01-01T00:00:10Z" } : {}),
  },
  spec: { containers: [], ...(nodeName === undefined ? {} : { nodeName }) },
});

test("Pods whose node does not exist are deleted 40 s after their creation", () => {
  expect(decideLostPod(pod("n"), true, created + 90_000)).toEqual({ kind: "keep" });
  expect(decideLostPod(pod("n"), false, created + 39_000)).toEqual({ kind: "wait", ms: 1_000 });
  expect(decideLostPod(pod("n"), false, created + 40_000)).toEqual({ kind: "delete", why: "node-deleted" });
  expect(decideLostPod(pod("n", true), true, created + 90_000)).toEqual({ kind: "keep" });
});

test("terminating Pods that were never bound are deleted", () => {
  expect(decideLostPod(pod(undefined), false, created)).toEqual({ kind: "keep" });
  expect(decideLostPod(pod(undefined, true), false, created)).toEqual({ kind: "delete", why: "never-bound" });
});

test("a Pod is kept if its node joins after it was bound, and deleted with the node", async () => {
  const clock = createVirtualClock();
  const environment = await startTestEnvironment({ clock });
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const manager = createManager({ name: "test", client, clock, logger: silentLogger, controllers: [podGarbageController] });
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
  const deletions = (async function* () {
    for await (const { type, object } of watch) if (type === "DELETED") yield object.metadata.name;
  })();
  await clock.advance(40_000);
  expect((await deletions.next()).value).toBe("lost");
  await client.delete(Node, { name: "late-node" });
  expect((await deletions.next()).value).toBe("early");
  watch.close();
});
