import { readFile } from "node:fs/promises";
import { PassThrough } from "node:stream";
import { Pod } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { changeCommands } from "./commands/changes/changes.ts";
import { parseInfo } from "./agent/redis/resp-client.ts";
import { type RedisEnvironment, startRedisEnvironment } from "./testing/redis-environment.ts";

let redis: RedisEnvironment;
beforeEach(async () => {
  redis = await startRedisEnvironment();
}, 60_000);
afterEach(() => redis[Symbol.asyncDispose](), 60_000);

async function provision(config: Record<string, string> = {}): Promise<void> {
  await redis.createApp({
    plugin: { name: "redis", version: "1.0.0" },
    runtime: { name: "redis", version: "7.0" },
    config: { redisConfig: { maxmemory: "64mb", ...config } },
    components: [{ name: "redis", groups: [{ name: "nodes", storage: { size: "64Mi" } }] }],
  });
  await redis.settled(1);
}

/** Process ids of the primary's server and of its agent. */
async function processes(): Promise<{ readonly server: number; readonly agent: number }> {
  const server = Number(parseInfo(await redis.command(await redis.primary(), "INFO", "server")).process_id);
  const stat = await readFile(`/proc/${server}/stat`, "utf8");
  return { server, agent: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) };
}

/** Waits until another Pod is the primary and all three are in sync. */
const recovered = (old: string | undefined) =>
  redis.untilGroup(
    ({ status }) => status?.primary?.pod !== old && status?.readyReplicas === 3 && status.failover === undefined,
  );

describe("a primary of real Redis", { timeout: 120_000 }, () => {
  it.each<[string, () => Promise<void>]>([
    ["whose server is killed", async () => void process.kill((await processes()).server, "SIGKILL")],
    ["whose agent is killed", async () => void process.kill((await processes()).agent, "SIGKILL")],
    ["whose server is frozen", async () => void process.kill((await processes()).server, "SIGSTOP")],
    [
      "whose agent and server are frozen",
      async () => {
        const { agent, server } = await processes();
        process.kill(agent, "SIGSTOP");
        process.kill(server, "SIGSTOP");
      },
    ],
  ])("%s is replaced, and no acknowledged write is lost", async (_, fail) => {
    await provision();
    const old = (await redis.group()).status?.primary?.pod;
    const writer = await redis.startWriter();
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(200);
    await fail();
    await recovered(old);
    expect((await writer.stop()).lost).toEqual([]);
  });

  it("without persistence is replaced when its Pod is deleted, and no key is lost", async () => {
    await provision({ appendonly: "no", save: "" });
    for (let key = 0; key < 200; key++) await redis.command(await redis.primary(), "SET", `key-${key}`, "x");
    const old = (await redis.group()).status?.primary?.pod ?? "";
    await redis.client.delete(Pod, { namespace: "default", name: old }, { gracePeriodSeconds: 1 });
    await recovered(old);
    for (const pod of await redis.pods()) expect(await redis.command(pod.status?.podIP ?? "", "DBSIZE")).toBe(200);
  });

  it("hands its role over on request without losing an acknowledged write", async () => {
    await provision();
    const writer = await redis.startWriter();
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(200);
    const command = changeCommands.find(({ name }) => name === "switchover");
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const status = await command?.run({
      args: ["cache"],
      flags: { namespace: "default", to: "cache-redis-nodes-2" },
      ...{ stdout, stderr, clock: systemClock, log: silentLogger },
      signal: AbortSignal.timeout(30_000),
      client: () => Promise.resolve(redis.client),
    });
    expect([status, String(stdout.read()), stderr.read()]).toEqual([0, "cache-redis-nodes-2 is the primary\n", null]);
    expect((await writer.stop()).lost).toEqual([]);
  });

  it("is not touched by a cold parameter that the server rejects, and the canary is restored", async () => {
    await provision();
    await redis.changeApp({ config: { redisConfig: { databases: "-4" } } });
    const app = await redis.untilApp(({ status }) => status?.plan?.generation === 2 && status.plan.outcome !== undefined);
    expect(app.status?.plan?.tasks[0]).toMatchObject({ status: "failed", errorClass: "Config" });
    expect(app.status?.plan?.tasks[0]?.error).toMatch(/does not start: .*databases "-4"/);
    await redis.untilGroup(({ status }) => status?.readyReplicas === 3);
  });
});
