import { once } from "node:events";
import { rm } from "node:fs/promises";
import { PassThrough } from "node:stream";
import { AgentError, killProcessesIn } from "@keelson/middleware-agent";
import type { EngineOptions, LoadOptions, SnapshotEngine, SnapshotOutcome, SnapshotSummary } from "@keelson/middleware-agent";
import { PostgresError } from "../server/postgres-client.ts";
import type { PostgresServer } from "../server/postgres-server.ts";
import { awaitReplicas, countReplicas } from "./await-replicas.ts";
import { type BaseBackupContent, type BaseBackupSink, discard, readBaseBackup } from "./base-backup.ts";
import { folderSink } from "./folder-sink.ts";
import { fetchHistories, settingsOf } from "./recovery-target.ts";
import { recover } from "./recovery-server.ts";
import { segmentNameOf } from "./backup-manifest.ts";
import { takeBaseBackup } from "./take-base-backup.ts";
import { freeBytesOf, spaceProblem } from "./volume-space.ts";

/** Options of {@link PostgresSnapshots}. */
export interface PostgresSnapshotOptions {
  readonly engine: EngineOptions;
  readonly server: PostgresServer;
  /** Whether the server has a role. */
  readonly isAdmitted: () => boolean;
  /** Why this server cannot load data: it must be a primary that accepts writes. */
  readonly obstacle: () => Promise<string | undefined>;
  /** Replaces the data of the primary by that in a directory. Resolves to why it did not. */
  readonly install: (folder: string) => Promise<string | undefined>;
}

/** Backups of a PostgreSQL server: base backups in tar format. Data is loaded by a second server, alongside the running one. */
export class PostgresSnapshots implements SnapshotEngine {
  readonly #options: PostgresSnapshotOptions;
  #hasLoad = false;
  #count = 0;

  constructor(options: PostgresSnapshotOptions) {
    this.#options = options;
  }

  async *snapshot(): AsyncGenerator<Uint8Array | SnapshotSummary> {
    const { server, engine, isAdmitted } = this.#options;
    if (!server.isRunning || !isAdmitted())
      throw new AgentError("SnapshotFailed", "this server currently has no data and no role");
    const programVersion = await server.version();
    const source = { files: server.files, address: server.connection.address, id: `${process.pid}_${this.#count++}` };
    const copy = new PassThrough({ highWaterMark: 1_048_576 });
    copy.on("error", () => undefined);
    // It is compared with its manifest while it is sent.
    const content = readBaseBackup(copy, discard);
    const ended = content.then(
      () => undefined,
      () => undefined,
    );
    let sizeBytes = 0;
    try {
      for await (const chunk of snapshotOf(takeBaseBackup(source))) {
        sizeBytes += chunk.length;
        if (!copy.write(chunk)) await Promise.race([once(copy, "drain"), ended]);
        yield chunk;
      }
      copy.end();
    } finally {
      if (!copy.writableEnded) copy.destroy(new Error("the base backup was not sent completely"));
      await ended;
    }
    const { files, log } = await content;
    engine.log.info({ files: files.size, sizeBytes }, "sent a base backup");
    const logStart = segmentNameOf(log);
    yield { logStart, sizeBytes, keys: files.size, expiringKeys: 0, format: "pg_basebackup", unit: "files", programVersion };
  }

  check(data: AsyncIterable<Uint8Array>): Promise<SnapshotOutcome> {
    return this.#outcomeOf(async () => {
      const { files } = await this.#read(data, discard);
      return { ok: true, keys: files.size, expiringKeys: 0 };
    });
  }

  async load(sizeBytes: number, data: AsyncIterable<Uint8Array>, options: LoadOptions = {}): Promise<SnapshotOutcome> {
    if (this.#hasLoad) return { ok: false, error: "another snapshot is being loaded" };
    this.#hasLoad = true;
    const { files } = this.#options.server;
    try {
      await this.#clear();
      const problem = spaceProblem(await freeBytesOf(files.home), sizeBytes);
      if (problem !== undefined) return { ok: false, error: problem };
      return await this.#outcomeOf(() => this.#load(files.data.incoming, data, options));
    } finally {
      await this.#clear().catch((error: unknown) =>
        this.#options.engine.log.warn({ err: error }, "could not clean up after a load"),
      );
      this.#hasLoad = false;
    }
  }

  async #load(folder: string, data: AsyncIterable<Uint8Array>, { signal, recovery }: LoadOptions): Promise<SnapshotOutcome> {
    const { server, engine, obstacle, install } = this.#options;
    const { files } = server;
    const problem = await obstacle();
    if (problem !== undefined) return { ok: false, error: problem };
    await files.createFolder(folder);
    const content = await this.#read(data, folderSink(folder, files));
    signal?.throwIfAborted();
    await files.createFolder(files.path("log"));
    const path = recovery === undefined ? undefined : await fetchHistories(recovery.log, content.log, files);
    const { port, password, clock, log } = engine;
    const lastTimeline = Math.max(await timelineOf(server), path?.newest ?? 0);
    log.warn({ files: content.files.size }, "recovering a base backup");
    await recover({
      ...{ files, folder, port, password, clock, lastTimeline },
      ...(signal === undefined ? {} : { signal }),
      ...(recovery === undefined ? {} : { log: recovery.log }),
      parameters: server.parameters,
      timeline: path?.timeline ?? content.log.timeline,
      target: settingsOf(recovery?.target),
    });
    signal?.throwIfAborted();
    const replicas = await countReplicas(server);
    const refusal = await install(folder);
    if (refusal !== undefined) return { ok: false, error: refusal };
    await awaitReplicas(server, replicas, engine);
    return { ok: true, keys: content.files.size, expiringKeys: 0 };
  }

  /** Deletes what a load needs or has left. */
  async #clear(): Promise<void> {
    const { files } = this.#options.server;
    const folders = [files.data.incoming, files.path("log"), files.path("recovery")];
    await killProcessesIn([files.data.incoming], this.#options.engine.clock);
    for (const folder of folders) await rm(folder, { recursive: true, force: true });
  }

  async #read(data: AsyncIterable<Uint8Array>, sink: BaseBackupSink): Promise<BaseBackupContent> {
    const content = await readBaseBackup(data, sink);
    const [major = ""] = (await this.#options.server.version()).split(".");
    if (content.majorVersion === major) return content;
    throw new AgentError("SnapshotFailed", `the data is of PostgreSQL ${content.majorVersion}, the server is of ${major}`);
  }

  /** Data that cannot be loaded is an outcome. */
  async #outcomeOf(act: () => Promise<SnapshotOutcome>): Promise<SnapshotOutcome> {
    try {
      return await act();
    } catch (error) {
      if (error instanceof AgentError) return { ok: false, error: error.message };
      throw error;
    }
  }
}

/** A server that does not respond cannot be backed up. */
async function* snapshotOf(data: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* data;
  } catch (error) {
    if (error instanceof PostgresError) throw new AgentError("SnapshotFailed", error.message, { cause: error });
    throw error;
  }
}

/** Timeline of a primary. */
async function timelineOf(server: PostgresServer): Promise<number> {
  const { timeline } = await server.connection.one("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline");
  return Number.parseInt(timeline ?? "1", 16);
}
