import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { reserveAddressBlock } from "@keelson/cluster/testing";
import { silentLogger } from "@keelson/controller";
import { type ContractPod, engineContract } from "@keelson/middleware-agent/testing";
import { describe, it } from "vitest";
import { connectResp, type Reply, RespError } from "./resp-client.ts";
import { RedisEngine } from "./redis-engine.ts";

const port = 6_379;
const password = "secret";
const parameters = { appendonly: "yes", appendfsync: "always", "repl-diskless-sync-delay": "0" };

/** A redis-server with its engine, on its own directory. */
class RedisPod implements ContractPod {
  readonly host: string;
  readonly #folder: string;
  engine: RedisEngine;

  constructor(host: string, folder: string) {
    this.host = host;
    this.#folder = folder;
    this.engine = this.#create();
  }

  async start(): Promise<void> {
    await mkdir(this.#folder, { recursive: true });
    await writeFile(join(this.#folder, "parameters.json"), JSON.stringify({ hash: "hash-1", parameters }));
    await this.engine.start();
  }

  async kill(): Promise<void> {
    const { engine } = this;
    const { pid } = (await engine.role()).info;
    process.kill(Number(pid), "SIGKILL");
    await engine.ended;
  }

  async crash(): Promise<void> {
    const isRunning = await this.engine.role().then(
      () => true,
      () => false,
    );
    if (isRunning) await this.kill();
    this.engine = this.#create();
    await this.engine.start();
  }

  write = async (key: string): Promise<boolean> => (await this.#command("SET", key, "x")) === "OK";
  has = async (key: string): Promise<boolean> => (await this.#command("GET", key)) === "x";

  async canLogIn(user: string, secret: string): Promise<boolean> {
    try {
      const client = await connectResp({ host: this.host, port, timeoutMs: 1_500, clock: systemClock });
      try {
        await client.command("AUTH", user, secret);
        return (await client.command("PING")) === "PONG";
      } finally {
        client.close();
      }
    } catch (error) {
      if (error instanceof RespError) return false;
      throw error;
    }
  }

  #create(): RedisEngine {
    const { host } = this;
    return new RedisEngine({
      ...{ program: "redis-server", host, port, password, podName: host, flags: {}, clock: systemClock, log: silentLogger },
      configFile: join(this.#folder, "parameters.json"),
      dataDir: this.#folder,
    });
  }

  /** Resolves to undefined if the server rejects the client or the command. */
  async #command(...words: readonly string[]): Promise<Reply | undefined> {
    try {
      const client = await connectResp({ host: this.host, port, password, timeoutMs: 1_500, clock: systemClock });
      try {
        return await client.command(...words);
      } finally {
        client.close();
      }
    } catch (error) {
      if (error instanceof RespError) return undefined;
      throw error;
    }
  }
}

describe("the engine of Redis", () => {
  const cases = engineContract({
    async startPods(count) {
      const folder = await mkdtemp(join(tmpdir(), "redis-contract-"));
      const block = await reserveAddressBlock(folder);
      const pods: RedisPod[] = [];
      for (let index = 0; index < count; index++) {
        const pod = new RedisPod(`${block.podNetwork}.0.${index + 10}`, join(folder, String(index)));
        await pod.start();
        pods.push(pod);
      }
      ending.set(pods, async () => {
        await block.release();
        await rm(folder, { recursive: true, force: true });
      });
      return pods;
    },
    async stopPods(pods) {
      await Promise.all(pods.map(({ engine }) => engine.stop({ timeoutMs: 5_000, force: true })));
      await ending.get(pods)?.();
    },
    parameters,
    hot: { name: "maxmemory", value: "64mb" },
    cold: { name: "databases", value: "32" },
    invalid: { name: "maxmemory-policy", value: "sometimes" },
    password,
    rules: { valid: ["~app:*", "+get", "+ping"], invalid: ["+nosuchcommand"] },
    clock: systemClock,
  });
  const ending = new Map<readonly ContractPod[], () => Promise<void>>();
  it.each(cases)("$title", { timeout: 120_000 }, ({ run }) => run());
});
