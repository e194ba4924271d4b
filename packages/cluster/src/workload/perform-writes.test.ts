import { Namespace, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, defineController, type ReconcileContext, silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { performWrites } from "./perform-writes.ts";

test("objects that a terminating namespace rejects do not stop the writes that its deletion waits for", async () => {
  const environment = await startTestEnvironment();
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const metadata = { namespace: "ending", name: "held" };
  const spec = { containers: [{ name: "c", image: "i" }] };
  const next: PodObject = { apiVersion: "v1", kind: "Pod", metadata: { ...metadata, name: "next" }, spec };
  await client.create(Namespace, { metadata: { name: "ending" } });
  const held = await client.create(Pod, { metadata: { ...metadata, finalizers: ["test/held"] }, spec });
  await client.delete(Namespace, { name: "ending" });
  const context = await new Promise<ReconcileContext>((resolve, reject) => {
    const controller = defineController({
      name: "test",
      for: Pod,
      reconcile: (_, given) => {
        resolve(given);
        return Promise.resolve(undefined);
      },
    });
    const manager = createManager({
      name: "test",
      client,
      clock: systemClock,
      logger: silentLogger,
      controllers: [controller],
    });
    onTestFinished(() => manager.stop());
    manager.start().catch(reject);
  });
  const outcome = await performWrites(
    [
      { kind: "create", type: Pod, object: next },
      { kind: "patch", type: Pod, object: held, body: { metadata: { finalizers: [] } } },
    ],
    context,
  );
  expect(outcome).toBe("done");
  expect((await client.get(Pod, metadata)).metadata.finalizers ?? []).toEqual([]);
});
