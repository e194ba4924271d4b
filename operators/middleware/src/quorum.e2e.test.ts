import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseInfo } from "./agent/redis/resp-client.ts";
import { type RedisEnvironment, startRedisEnvironment } from "./testing/redis-environment.ts";

let redis: RedisEnvironment;
beforeEach(async () => {
  redis = await startRedisEnvironment();
}, 60_000);
afterEach(() => redis[Symbol.asyncDispose](), 60_000);

/** Role of a server: master, slave or undefined if it does not respond. */
async function roleOf(host: string): Promise<string | undefined> {
  try {
    return parseInfo(await redis.command(host, "INFO", "replication")).role;
  } catch {
    return undefined;
  }
}

/** Process ids of the server at an address and of its agent. */
async function processesOf(host: string): Promise<{ readonly server: number; readonly agent: number }> {
  const server = Number(parseInfo(await redis.command(host, "INFO", "server")).process_id);
  const stat = await readFile(`/proc/${server}/stat`, "utf8");
  return { server, agent: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) };
}

describe("a primary of real Redis that fails while the controller is away", { timeout: 180_000 }, () => {
  it.each(["killed"] as const)("(%s) is replaced by its agents, and follows when it returns", async () => {
    await redis.createApp({
      plugin: { name: "redis", version: "1.0.0" },
      runtime: { name: "redis", version: "7.0" },
      config: { redisConfig: { maxmemory: "64mb" } },
      components: [
        { name: "redis", groups: [{ name: "nodes", storage: { size: "64Mi" }, highAvailability: { quorum: true } }] },
      ],
    });
    await redis.settled(1);
    const old = await redis.primary();
    const others = (await redis.pods()).flatMap(({ status }) => status?.podIP ?? []).filter((host) => host !== old);
    const name = "cache-redis-nodes";
    const hasQuorum = async (host: string) => redis.sentinel(host, "SENTINEL", "ckquorum", name).catch(() => "none");
    for (const host of others) await expect.poll(() => hasQuorum(host), { timeout: 60_000 }).toContain("OK 3 usable");
    const writer = await redis.startWriter();
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(200);
    const { server, agent } = await processesOf(old);
    await redis.stopOperator();
    for (const pid of [agent, server]) process.kill(pid, "SIGKILL");

    const roles = async () => (await Promise.all(others.map(roleOf))).sort().join();
    await expect.poll(roles, { timeout: 60_000 }).toBe("master,slave");
    const [elected] =
      (await Promise.all(others.map(async (host) => [host, await roleOf(host)]))).find(([, role]) => role === "master") ?? [];
    const address = () => redis.sentinel(others[0] ?? "", "SENTINEL", "get-master-addr-by-name", name);
    await expect.poll(address, { timeout: 30_000 }).toEqual([elected, "6379"]);
    const written = writer.count;
    await expect.poll(() => writer.count, { timeout: 30_000 }).toBeGreaterThan(written + 100);
    // Its container restarts, and its agent learns of the new primary.
    await expect.poll(() => roleOf(old), { timeout: 60_000 }).toBe("slave");

    await redis.startOperator();
    await redis.untilGroup(({ status }) => {
      const primary = status?.pods?.find((pod) => pod.name === status.primary?.pod);
      return primary?.ip !== old && status?.readyReplicas === 3 && status.message === undefined;
    });
    expect((await writer.stop()).lost).toEqual([]);
  });
});
