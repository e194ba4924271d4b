import type { MetricFamily } from "@keelson/controller/metrics";
import type { ServerContext } from "@keelson/operator";
import { expect, it } from "vitest";
import type { AgentClient } from "../agent/agent-client.ts";
import { createSimulatedStore } from "../testing/simulated-store.ts";
import { createMonitoringServer } from "./monitoring-server.ts";

it("shares one collection between scrapes that overlap, and collects again afterwards", async () => {
  const store = createSimulatedStore(
    () => {},
    (_, act) => act(),
  );
  store.create("App", {
    apiVersion: "middleware.io/v1alpha1",
    kind: "App",
    metadata: { name: "cache" },
    spec: { plugin: { name: "redis", version: "1.0.0" }, monitoring: { enabled: true } },
  });
  const reads: (() => void)[] = [];
  const client = { get: () => new Promise((_, reject) => reads.push(() => reject(new Error("forbidden")))) };
  let collect: () => Promise<readonly MetricFamily[]> = () => Promise.resolve([]);
  const collectMetrics = (each: typeof collect) => {
    collect = each;
    return () => {};
  };
  const context = { cache: store.cache, client, collectMetrics } as unknown as ServerContext;
  await createMonitoringServer({} as AgentClient).start(context);
  const scrapes = [collect(), collect()];
  expect(reads).toHaveLength(1);
  reads[0]?.();
  const [first, second] = await Promise.all(scrapes);
  expect(first).toBe(second);
  expect(first?.find(({ name }) => name === "keelson_middleware_app_ready")?.samples).toHaveLength(1);
  const next = collect();
  expect(reads).toHaveLength(2);
  reads[1]?.();
  expect(await next).not.toBe(first);
});
