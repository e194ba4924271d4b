import { ConfigMap, Namespace } from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { describe, expect, test } from "vitest";
import { cacheOf } from "./cache-options.ts";
import { createManager } from "../manager/create-manager.ts";
import { defineController } from "../reconcile/define-controller.ts";
import { readOf } from "./cache.ts";

/* On the embedded server: what is selected is the server's to say. */
describe.each(["pages", "stream"] as const)("cache with a selection, initial list by %s", (initialList) => {
  test("caches transformed objects that the kind's selectors and namespaces select", async () => {
    await using environment = await startTestEnvironment();
    const client = createClient({ transport: environment.transport(), fieldManager: "test" });
    for (const name of ["a", "b"]) await client.create(Namespace, { metadata: { name } });
    const create = (namespace: string, name: string, kept: string) =>
      client.create(ConfigMap, { metadata: { namespace, name, labels: { kept } }, data: { size: "large" } });
    await create("a", "in", "yes");
    await create("a", "named-out", "yes");
    await create("a", "out", "no");
    await create("b", "elsewhere", "yes");
    const selection = cacheOf(ConfigMap, {
      namespaces: { a: { fieldSelector: "metadata.name!=named-out" } },
      labelSelector: "kept=yes",
      transform: (object) => {
        const { data: _, ...rest } = object;
        return rest;
      },
    });
    const manager = createManager({
      ...{ client, name: "test", controllers: [], reads: [readOf(ConfigMap), readOf(Namespace)] },
      cache: { byObject: [selection], initialList },
    });
    await using _ = manager;
    await manager.start();
    const cached = (): unknown[] => manager.cache.list(ConfigMap).map(({ metadata, data }) => [metadata.name, data]);
    expect(cached()).toEqual([["in", undefined]]);
    expect(manager.cache.list(Namespace).length).toBeGreaterThan(1);

    const label = (name: string, kept: string) =>
      client.patch(ConfigMap, { namespace: "a", name }, { type: "merge", body: { metadata: { labels: { kept } } } });
    await label("out", "yes");
    await expect.poll(cached, { timeout: 8_000 }).toEqual([
      ["in", undefined],
      ["out", undefined],
    ]);
    await label("in", "no");
    await expect.poll(cached, { timeout: 8_000 }).toEqual([["out", undefined]]);
  });

  test("a controller waits for its writes to selected objects only", async () => {
    await using environment = await startTestEnvironment();
    const client = createClient({ transport: environment.transport(), fieldManager: "test" });
    await client.create(Namespace, { metadata: { name: "a" } });
    const seen: unknown[] = [];
    const controller = defineController({
      name: "writes",
      for: ConfigMap,
      async reconcile({ namespace, name }, { cache, client: own }) {
        if (name !== "in") return undefined;
        seen.push(cache.get(ConfigMap, { namespace, name })?.data?.["round"]);
        if (seen.length > 3) return undefined;
        // Each reconcile finds the round that the last one wrote.
        await own.apply(ConfigMap, { metadata: { namespace: "a", name }, data: { round: String(seen.length) } });
        await own.apply(ConfigMap, { metadata: { namespace: "a", name: "out" }, data: { round: String(seen.length) } });
        return { requeueAfterMs: 1 };
      },
    });
    await using manager = createManager({
      ...{ client, name: "test", controllers: [controller] },
      cache: { byObject: [cacheOf(ConfigMap, { labelSelector: "kept=yes" })], initialList },
    });
    await manager.start();
    await client.create(ConfigMap, { metadata: { namespace: "a", name: "in", labels: { kept: "yes" } }, data: { round: "0" } });
    // Waited for, a write that is not shown would take 5 s a round.
    await expect.poll(() => seen.at(-1), { timeout: 9_000 }).toBe("3");
    expect(seen.indexOf("0")).toBe(0);
    expect(seen).toEqual(["0", "1", "2", "3", ...seen.slice(4).map(() => "3")]);
  });
});
