import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fence } from "./redis-config.ts";
import { RedisConnection } from "./redis-connection.ts";
import { RedisSnapshots } from "./redis-snapshots.ts";
import { encodeCommand, parseReply } from "./resp-client.ts";

const host = "127.0.0.1";

/** A primary that follows any address, and never gets a snapshot. */
class FakeServer implements AsyncDisposable {
  /** Arguments of the REPLICAOF commands. */
  readonly followed: string[] = [];
  minReplicasToWrite = "0";
  onFollow: () => void = () => undefined;
  readonly #server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    let buffer: Buffer = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      buffer = Buffer.concat([buffer, chunk]);
      for (let parsed = parseReply(buffer, 0); buffer.length > 0 && parsed !== undefined; parsed = parseReply(buffer, 0)) {
        buffer = buffer.subarray(parsed.end);
        socket.write(this.#answer(parsed.reply as readonly string[]));
      }
    });
  });

  async start(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, host, resolve));
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer([command, ...words]: readonly string[]): string {
    if (command === "REPLICAOF") {
      this.followed.push(words.join(" "));
      this.onFollow();
      return "+OK\r\n";
    }
    if (command === "CONFIG") return encodeCommand(["min-replicas-to-write", this.minReplicasToWrite]);
    const isPrimary = this.followed.length === 0 || this.followed.at(-1) === "NO ONE";
    const info = `role:${isPrimary ? "master" : "slave"}\r\nloading:0\r\nmaster_link_status:down\r\nmaster_sync_in_progress:0\r\n`;
    return `$${info.length}\r\n${info}\r\n`;
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

describe("a load of a snapshot", () => {
  let server: FakeServer;
  let connection: RedisConnection;
  let isIsolated: boolean;
  let snapshots: RedisSnapshots;
  beforeEach(async () => {
    server = new FakeServer();
    const port = await server.start();
    connection = new RedisConnection({ host, port, password: "", clock: systemClock });
    isIsolated = false;
    const log = silentLogger;
    const shared = { program: "redis", dataDir: tmpdir(), host, port, password: () => "", connection, clock: systemClock, log };
    snapshots = new RedisSnapshots({ ...shared, isIsolated: () => isIsolated });
  });
  afterEach(async () => {
    connection.close();
    await server[Symbol.asyncDispose]();
  });

  it("makes the server a primary again when its caller has disconnected", async () => {
    const caller = new AbortController();
    server.onFollow = () => caller.abort(new Error("the caller has disconnected"));
    await expect(snapshots.load(10, nothing(), { signal: caller.signal })).rejects.toThrow("the caller has disconnected");
    expect(server.followed).toEqual([expect.stringMatching(/^127\.0\.0\.1 \d+$/), "NO ONE"]);
    expect(snapshots.isLoading).toBe(false);
  });

  it("is accepted once at a time", async () => {
    const caller = new AbortController();
    server.onFollow = () => caller.abort(new Error("disconnected"));
    const first = snapshots.load(10, nothing(), { signal: caller.signal });
    await expect(snapshots.load(10, nothing())).resolves.toEqual({ ok: false, error: "another snapshot is being loaded" });
    await expect(first).rejects.toThrow("disconnected");
    expect(server.followed.length).toBe(2);
  });

  it("is rejected on a fenced or isolated server, and accepted afterwards", async () => {
    server.minReplicasToWrite = fence;
    await expect(snapshots.load(10, nothing())).resolves.toEqual({ ok: false, error: "this server is fenced" });
    server.minReplicasToWrite = "0";
    isIsolated = true;
    await expect(snapshots.load(10, nothing())).resolves.toMatchObject({ ok: false, error: /has no role/ });
    expect(server.followed).toEqual([]);
    isIsolated = false;
    const caller = new AbortController();
    server.onFollow = () => caller.abort(new Error("disconnected"));
    await expect(snapshots.load(10, nothing(), { signal: caller.signal })).rejects.toThrow("disconnected");
  });
});
