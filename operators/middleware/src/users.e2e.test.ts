import { readdir, readFile } from "node:fs/promises";
import { PassThrough } from "node:stream";
import { Event, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectResp, parseInfo, type Reply } from "./agent/redis/resp-client.ts";
import { usersCommand } from "./commands/users.ts";
import { App } from "./api/app.ts";
import { Group } from "./api/group.ts";
import { type RedisEnvironment, startRedisEnvironment } from "./testing/redis-environment.ts";

let redis: RedisEnvironment;
beforeEach(async () => {
  redis = await startRedisEnvironment();
}, 60_000);
afterEach(() => redis[Symbol.asyncDispose](), 60_000);

const namespace = "default";

async function passwordOf(secret: string): Promise<string> {
  const { data } = await redis.client.get(Secret, { namespace, name: secret });
  return Buffer.from(data?.["password"] ?? "", "base64").toString();
}

/** Runs a command as a user of a server. Resolves to the error's message if the server rejects it. */
async function as(host: string, user: string, password: string, ...words: readonly string[]): Promise<Reply> {
  const connection = await connectResp({ host, port: 6379, timeoutMs: 20_000, clock: systemClock });
  try {
    await connection.command("AUTH", user, password);
    return await connection.command(...words);
  } catch (error) {
    return String((error as Error).message).split(" ")[0] ?? "";
  } finally {
    connection.close();
  }
}

async function users(...args: readonly string[]) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const status = await usersCommand.run({
    args,
    flags: { namespace, rules: "~app:* +@read +ping" },
    ...{ stdout, stderr, clock: systemClock, log: silentLogger },
    signal: AbortSignal.timeout(60_000),
    client: () => Promise.resolve(redis.client),
  });
  return { status, out: String(stdout.read() ?? ""), err: String(stderr.read() ?? "") };
}

/** Everything that others may see: objects other than Secrets, events, and the command lines of processes. */
async function visible(): Promise<string> {
  const lists = await Promise.all([redis.client.list(App), redis.client.list(Group), redis.client.list(Event)]);
  const processes = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const commands = await Promise.all(processes.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  return JSON.stringify([lists.map(({ items }) => items), await redis.pods(), redis.errors, commands]);
}

describe("users of real Redis", { timeout: 180_000 }, () => {
  it("are created and deleted, and a rotated password interrupts no client, also across a failover", async () => {
    await redis.createApp({
      plugin: { name: "redis", version: "1.0.0" },
      runtime: { name: "redis", version: "7.0" },
      components: [{ name: "redis", groups: [{ name: "nodes", storage: { size: "64Mi" } }] }],
    });
    await redis.settled(1);
    const hosts = async (): Promise<readonly string[]> => (await redis.pods()).map((pod) => pod.status?.podIP ?? "");

    expect(await users("create", "cache", "reader")).toMatchObject({ status: 0, err: "" });
    const reader = await passwordOf("cache-user-reader");
    for (const host of await hosts()) {
      expect(await as(host, "reader", reader, "GET", "app:x")).toBeNull();
      expect(await as(host, "reader", reader, "GET", "other")).toBe("NOPERM");
      expect(await as(host, "reader", reader, "SET", "app:x", "1")).toBe("NOPERM");
    }

    const old = await passwordOf("cache-access");
    // It authenticates with the old password throughout.
    const writer = await redis.startWriter();
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(50);
    expect(await users("rotate", "cache")).toMatchObject({ status: 0, err: "" });
    const next = await passwordOf("cache-access");
    expect(next).not.toBe(old);
    for (const host of await hosts())
      expect([await as(host, "default", old, "PING"), await as(host, "default", next, "PING")]).toEqual(["PONG", "PONG"]);
    // The controller records the end of the grace period after it has published the password.
    await expect
      .poll(async () => (await users("list", "cache")).out, { timeout: 60_000 })
      .toMatch(/^default .* rotated; the previous one is accepted until 20/m);

    const primary = (await redis.group()).status?.primary?.pod;
    const server = Number(parseInfo(await redis.command(await redis.primary(), "INFO", "server"))["process_id"]);
    process.kill(server, "SIGKILL");
    await redis.untilGroup(
      ({ status }) => status?.primary?.pod !== primary && status?.readyReplicas === 3 && status.failover === undefined,
    );
    for (const host of await hosts())
      expect([await as(host, "default", old, "PING"), await as(host, "reader", reader, "PING")]).toEqual(["PONG", "PONG"]);
    expect((await writer.stop()).lost).toEqual([]);

    expect(await users("delete", "cache", "reader")).toMatchObject({ status: 0, err: "" });
    for (const host of await hosts()) expect(await as(host, "reader", reader, "PING")).toBe("WRONGPASS");
    const text = await visible();
    for (const secret of [old, next, reader]) expect(text.includes(secret)).toBe(false);
  });
});
