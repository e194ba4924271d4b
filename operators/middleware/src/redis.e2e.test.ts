import { PersistentVolumeClaim } from "@keelson/api-machinery/kinds";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseInfo } from "./agent/redis/resp-client.ts";
import { type RedisEnvironment, startRedisEnvironment } from "./testing/redis-environment.ts";

let redis: RedisEnvironment;
beforeEach(async () => {
  redis = await startRedisEnvironment();
}, 60_000);
afterEach(() => redis[Symbol.asyncDispose](), 60_000);

const nodes = (part: object) => ({ components: [{ name: "redis", groups: [{ name: "nodes", ...part }] }] });

describe("a Redis App", () => {
  it("is provisioned, applies hot and cold parameters under a live writer, grows its volumes and scales out", {
    timeout: 300_000,
  }, async () => {
    await redis.createApp({
      plugin: { name: "redis", version: "1.0.0" },
      runtime: { name: "redis", version: "7.0" },
      config: { redisConfig: { maxmemory: "64mb" } },
      ...nodes({ storage: { size: "64Mi" } }),
    });
    await redis.settled(1);
    const first = await redis.pods();
    expect(first.map((pod) => pod.metadata.labels?.["middleware.io/role"])).toEqual(["primary", "replica", "replica"]);
    const info = parseInfo(await redis.command(await redis.primary(), "INFO", "replication"));
    expect(info).toMatchObject({ role: "master", connected_slaves: "2" });

    // Hot: no Pod is replaced, no program is restarted.
    const serverInfo = async (host: string) => parseInfo(await redis.command(host, "INFO", "server"));
    const before = await Promise.all(first.map((pod) => serverInfo(pod.status?.podIP ?? "")));
    await redis.settled(await redis.changeApp({ config: { redisConfig: { maxmemory: "96mb" } } }));
    const after = await redis.pods();
    expect(after.map((pod) => pod.metadata.uid)).toEqual(first.map((pod) => pod.metadata.uid));
    for (const [index, pod] of after.entries()) {
      const host = pod.status?.podIP ?? "";
      expect((await serverInfo(host)).run_id).toBe(before[index]?.run_id);
      expect(await redis.command(host, "CONFIG", "GET", "maxmemory")).toEqual(["maxmemory", String(96 * 1_048_576)]);
    }

    // Cold, under a live writer.
    const writer = await redis.startWriter();
    const wasPrimary = (await redis.group()).status?.primary?.pod;
    await redis.settled(await redis.changeApp({ config: { redisConfig: { databases: "32" } } }));
    const { status } = await redis.group();
    expect(status?.primary?.pod).not.toBe(wasPrimary);
    const steps = status?.operation?.steps?.filter((step) => step.action === "restarts").map((step) => step.target);
    expect(steps?.at(-1)).toBe(wasPrimary);
    expect(new Set(steps).size).toBe(3);
    const report = await writer.stop();
    expect(report.acknowledged.size).toBeGreaterThan(100);
    expect(report.lost).toEqual([]);
    expect(await redis.command(await redis.primary(), "CONFIG", "GET", "databases")).toEqual(["databases", "32"]);

    // Volumes grow and nothing restarts.
    const uids = (await redis.pods()).map((pod) => pod.metadata.uid);
    await redis.settled(await redis.changeApp(nodes({ storage: { size: "96Mi" } })));
    const claims = await redis.client.list(PersistentVolumeClaim, { namespace: "default" });
    expect(claims.items.map((claim) => claim.status?.capacity?.storage)).toEqual(["96Mi", "96Mi", "96Mi"]);
    expect((await redis.pods()).map((pod) => pod.metadata.uid)).toEqual(uids);

    // A fourth Pod.
    await redis.settled(await redis.changeApp(nodes({ replicas: 4, storage: { size: "96Mi" } })));
    const replication = parseInfo(await redis.command(await redis.primary(), "INFO", "replication"));
    expect(replication.connected_slaves).toBe("3");
    expect(redis.errors).toEqual([]);
  });
});
