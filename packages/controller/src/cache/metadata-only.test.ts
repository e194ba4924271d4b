import { Namespace, Secret } from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { expect, test, vi } from "vitest";
import { createManager } from "../manager/create-manager.ts";
import { metadataOf } from "./metadata-only.ts";
import { defineController } from "../reconcile/define-controller.ts";

test("caches a kind's metadata in addition to the complete kind, and waits for own writes in both", async () => {
  await using environment = await startTestEnvironment();
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(Namespace, { metadata: { name: "a" } }).catch(() => {});
  const key = { namespace: "a", name: "s" };
  await client.create(Secret, { metadata: { ...key, labels: { step: "0" } }, stringData: { password: "x" } });
  const seen: (string | undefined)[] = [];
  const controller = defineController({
    name: "secrets",
    for: metadataOf(Secret),
    async reconcile(request, { cache, client: own }) {
      const step = cache.get(metadataOf(Secret), request)?.metadata.labels?.["step"];
      seen.push(step);
      if (step !== "3")
        await own.patch(Secret, request, { type: "merge", body: { metadata: { labels: { step: `${Number(step) + 1}` } } } });
    },
  });
  await using manager = createManager({ client, name: "test", controllers: [controller] });
  await manager.start();
  await vi.waitFor(() => expect(seen.at(-1)).toBe("3"));
  expect(seen).toEqual(["0", "1", "2", "3"]);
  const cached = manager.cache.get(metadataOf(Secret), key);
  expect(Object.keys(cached ?? {})).toEqual(["apiVersion", "kind", "metadata"]);
  expect(cached).toMatchObject({ apiVersion: "v1", kind: "Secret", metadata: key });
  expect(() => manager.cache.get(Secret, key)).toThrow("not cached");
});
