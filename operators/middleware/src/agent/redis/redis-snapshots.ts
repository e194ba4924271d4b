import { join } from "node:path";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { AgentError } from "@keelson/middleware-agent";
import type { Certificates, LoadOptions, SnapshotEngine, SnapshotOutcome, SnapshotSummary } from "@keelson/middleware-agent";
import { RdbCheck } from "./rdb-check.ts";
import { RdbFeeder } from "./rdb-feeder.ts";
import { streamRdb } from "./rdb-stream.ts";
import { keysOf, type RedisConnection, type RedisInfo } from "./redis-connection.ts";
import { RedisFence } from "./redis-switchover.ts";
import type { RedisTls } from "./redis-tls.ts";
import { RespError } from "./resp-client.ts";

/** Options of {@link RedisSnapshots}. */
export interface RedisSnapshotOptions {
  readonly program: string;
  /** Mount path of the volume. */
  readonly dataDir: string;
  readonly host: string;
  readonly port: number;
  /** The current password of the server. */
  readonly password: () => string;
  readonly connection: RedisConnection;
  /** TLS of the server, and its certificates. Undefined: without TLS. */
  readonly tls?: RedisTls | undefined;
  readonly certificates?: { readonly current: Certificates } | undefined;
  /** Whether the server was (re)started and has no role yet. */
  readonly isIsolated: () => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

const pollMs = 100;

/** Snapshots of a redis-server or valkey-server, in RDB format, over its replication protocol. */
export class RedisSnapshots implements SnapshotEngine {
  readonly #options: RedisSnapshotOptions;
  /** Whether a load has been accepted. Set synchronously, so that only one is. */
  #hasLoad = false;
  #isLoading = false;

  constructor(options: RedisSnapshotOptions) {
    this.#options = options;
  }

  /** Whether the server is loading a snapshot. Meanwhile it follows the agent, and remains the primary of its Group. */
  get isLoading(): boolean {
    return this.#isLoading;
  }

  async *snapshot(): AsyncGenerator<Uint8Array | SnapshotSummary> {
    const fields = await this.#options.connection.info();
    const check = this.#createCheck();
    try {
      let sizeBytes = 0;
      for await (const chunk of streamRdb({ ...this.#options, password: this.#options.password() })) {
        sizeBytes += chunk.length;
        await check.write(chunk);
        yield chunk;
      }
      const outcome = await check.end();
      if (!outcome.ok) throw new AgentError("SnapshotFailed", `the snapshot is not valid: ${outcome.error}`);
      const { keys, expiringKeys } = outcome;
      const programVersion = fields.valkey_version ?? fields.redis_version ?? "";
      yield { sizeBytes, keys, expiringKeys, format: "rdb", programVersion };
    } finally {
      check.cancel();
    }
  }

  async check(data: AsyncIterable<Uint8Array>): Promise<SnapshotOutcome> {
    const check = this.#createCheck();
    try {
      for await (const chunk of data) if (!(await check.write(chunk))) break;
      return await check.end();
    } finally {
      check.cancel();
    }
  }

  #createCheck(): RdbCheck {
    return new RdbCheck(this.#options.program, join(this.#options.dataDir, "keelson-check"));
  }

  async load(sizeBytes: number, data: AsyncIterable<Uint8Array>, { signal }: LoadOptions = {}): Promise<SnapshotOutcome> {
    if (this.#hasLoad) return { ok: false, error: "another snapshot is being loaded" };
    this.#hasLoad = true;
    try {
      const problem = await this.#replaceData(sizeBytes, data, signal);
      if (problem !== undefined) return { ok: false, error: problem };
      await this.#until(isPersisted, signal);
      const loaded = await this.#options.connection.info();
      return { ok: true, keys: keysOf(loaded), expiringKeys: expiringKeysOf(loaded) };
    } finally {
      this.#hasLoad = false;
    }
  }

  /** Returns why the data was not replaced, if the server has kept it. */
  async #replaceData(sizeBytes: number, data: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<string | undefined> {
    const { host, password, connection, log, isIsolated } = this.#options;
    // Another server may be the primary of the Group by now, or become it.
    if (await RedisFence.isEffective(connection)) return "this server is fenced";
    const fields = await connection.info("replication");
    if (isIsolated()) return "this server was restarted and has no role";
    if (fields.role !== "master") return "this server is not the primary";
    signal?.throwIfAborted();
    // Not before its role is known: a replica must not be reported as a primary.
    this.#isLoading = true;
    let feeder: RdbFeeder | undefined;
    try {
      const offset = Number(fields.master_repl_offset ?? 0) + 1;
      const certificates = this.#options.certificates?.current;
      feeder = await RdbFeeder.start({ host, password: password(), offset, sizeBytes, data, certificates });
      await this.#follow(feeder, log, sizeBytes, signal);
      return undefined;
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      return error.message;
    } finally {
      await feeder?.stop();
      this.#isLoading = false;
    }
  }

  /** Makes the server follow the feeder until it has loaded the snapshot, and a primary again. */
  async #follow(feeder: RdbFeeder, log: Logger, sizeBytes: number, signal?: AbortSignal): Promise<void> {
    const { host, connection } = this.#options;
    try {
      log.warn({ sizeBytes }, "replacing all data by a snapshot");
      if (this.#options.tls !== undefined) await connection.run("CONFIG", "SET", "tls-replication", "yes");
      await connection.run("REPLICAOF", host, String(feeder.port));
      await this.#until((info) => {
        if (feeder.failure !== undefined) throw feeder.failure;
        return isLoaded(info);
      }, signal);
    } finally {
      // A server that is not made a primary again would wait for the agent forever.
      await this.#promote();
    }
  }

  async #promote(): Promise<void> {
    for (;;) {
      try {
        await this.#options.connection.run("REPLICAOF", "NO", "ONE");
        return;
      } catch (error) {
        // A server that is loading rejects the command, and one that empties its data does not respond.
        if (!isBusy(error)) throw error;
        await sleep(this.#options.clock, pollMs);
      }
    }
  }

  /** Waits until INFO satisfies a predicate. A server reports nothing by itself. Rejects with the signal's reason. */
  async #until(isReached: (fields: RedisInfo) => boolean, signal?: AbortSignal): Promise<void> {
    for (;;) {
      signal?.throwIfAborted();
      try {
        if (isReached(await this.#options.connection.info())) return;
      } catch (error) {
        if (!isBusy(error)) throw error;
      }
      await sleep(this.#options.clock, pollMs, signal);
    }
  }
}

const isLoaded = ({ loading, master_link_status: link, master_sync_in_progress: sync }: RedisInfo): boolean =>
  loading === "0" && link === "up" && sync === "0";

/** Whether a restart would find the loaded data: the server rewrites its append-only file after it has loaded a snapshot. */
function isPersisted(fields: RedisInfo): boolean {
  const { aof_enabled: isEnabled, aof_rewrite_in_progress: isRewriting, aof_rewrite_scheduled: isScheduled } = fields;
  return isEnabled !== "1" || (isRewriting === "0" && isScheduled === "0" && fields.aof_last_bgrewrite_status === "ok");
}

const isBusy = (error: unknown): boolean =>
  error instanceof RespError &&
  !error.isConnectionRefused &&
  (error.code === "Unreachable" || error.message.startsWith("LOADING"));

/** Keys with a time to live in all databases, from lines such as `db0:keys=3,expires=1`. */
function expiringKeysOf(fields: RedisInfo): number {
  return Object.entries(fields).reduce((sum, [name, value]) => {
    const keys = /^db\d+$/.test(name) ? /expires=(\d+)/.exec(value)?.[1] : undefined;
    return sum + Number(keys ?? 0);
  }, 0);
}
