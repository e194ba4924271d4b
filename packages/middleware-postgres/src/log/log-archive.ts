import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sleep, type Timer } from "@keelson/api-machinery/time";
import {
  AgentError,
  type EngineOptions,
  type LogEngine,
  type LogFile,
  type Outcome,
  readJson,
  type ReadLogOptions,
} from "@keelson/middleware-agent";
import { connectToPeer, type PeerAccess } from "../server/peer-connection.ts";
import type { PostgresServer } from "../server/postgres-server.ts";
import { Sequence } from "../sequence.ts";
import type { SynchronousNames } from "../roles/synchronous-quorum.ts";
import { historyName, parseSwitches } from "../roles/timeline.ts";
import {
  type Archived,
  type AvailableLog,
  isArchived,
  nameOf,
  nextFile,
  nothingArchived,
  parseCursor,
  parseSegment,
  startOf,
} from "./log-position.ts";

const [pollMs, checkMs] = [300, 2_000];

/** What survives a restart of the agent. */
interface ArchiveState {
  readonly isEnabled: boolean;
  readonly archived: Archived;
  /** When a file was confirmed last, RFC 3339. */
  readonly archivedAt?: string;
  /** The first file that was skipped because it did not exist any more. */
  readonly missing?: string;
  /** What was archived before the archive ended and began again: log between is lost. */
  readonly before?: Archived;
}

/** The server whose log is archived. */
export type ArchivingServer = Pick<PostgresServer, "connection" | "files" | "isRunning" | "parameters" | "setArchiveCommand">;

/** Options of {@link LogArchive}. */
export interface LogArchiveOptions {
  readonly engine: EngineOptions & PeerAccess;
  readonly server: ArchivingServer;
  /** Learns what the primary has. */
  readonly synchronous: Pick<SynchronousNames, "learn">;
  /** Address of the primary that this server follows; the own one on the primary; undefined without a role. */
  readonly primaryHost: () => string | undefined;
}

/**
 * The archive of the log. The server archives a segment with a command that fails until the segment was confirmed, so it keeps everything
 * that is not stored elsewhere. Replicas archive too: they learn from their primary what was confirmed. So a promoted replica still has what the
 * former primary had not archived.
 */
export class LogArchive implements LogEngine {
  readonly #options: LogArchiveOptions;
  #state: ArchiveState = { isEnabled: false, archived: nothingArchived };
  /** Complete files that were not archived, as of the last check. */
  #backlog = 0;
  #timer: Timer | undefined;
  /** Changes of the state. A later one must not overtake an earlier one on its way to the disk. */
  readonly #changes = new Sequence();
  #isEnded = false;

  constructor(options: LogArchiveOptions) {
    this.#options = options;
  }

  /** Reads its state. The server must not run yet. */
  async load(): Promise<void> {
    const { files } = this.#options.server;
    await files.createFolder(files.path("archived"));
    this.#state = ((await readJson(files.path("archive.json"))) as ArchiveState | undefined) ?? this.#state;
    await this.#applyCommand();
    this.#schedule();
  }

  end(): void {
    this.#isEnded = true;
    this.#timer?.cancel();
  }

  /** Keys of `extra_info`. */
  get info(): Readonly<Record<string, string>> {
    const { isEnabled, archivedAt, missing, archived } = this.#state;
    if (!isEnabled || this.#overridden) return { logArchive: "false" };
    const [timeline, number] = Object.entries(archived.segments).at(-1) ?? [];
    const last: Record<string, string> =
      number === undefined ? {} : { logArchived: nameOf({ timeline: Number(timeline), number }) };
    return {
      logArchive: "true",
      logBacklog: String(this.#backlog),
      ...last,
      ...(archivedAt ? { logArchivedAt: archivedAt } : {}),
      ...(missing ? { logMissing: missing } : {}),
    };
  }

  async setArchive(isEnabled: boolean): Promise<Outcome> {
    if (isEnabled && this.#overridden)
      return { ok: false, error: "archive_mode, archive_command or archive_library is set in the App's parameters" };
    await this.#changes.run(async () => {
      const { isEnabled: wasEnabled, archived, before = archived } = this.#state;
      // Another directory may follow, so the archive begins again. What was archived before shows whether log is lost in the meantime.
      if (isEnabled !== wasEnabled) await this.#save({ isEnabled, archived: nothingArchived, before });
      await this.#applyCommand();
    });
    return { ok: true };
  }

  /** Whether a parameter of the App replaces the command. */
  get #overridden(): boolean {
    return Object.keys(this.#options.server.parameters).some((name) => /^archive_(mode|command|library)$/i.test(name));
  }

  async next({ skipMissing = false, signal }: ReadLogOptions = {}): Promise<LogFile> {
    const { engine, server } = this.#options;
    for (let start: number | undefined; ; await sleep(engine.clock, pollMs, signal)) {
      signal?.throwIfAborted();
      const log = await this.#available();
      const { archived, before } = this.#state;
      const next = this.#gapSince(before, log, start) ?? nextFile(archived, log, start);
      start = undefined;
      if (next.kind === "waiting") continue;
      if (next.kind === "missing") {
        if (!skipMissing || next.oldest === undefined)
          throw new AgentError("LogMissing", `${next.name} no longer exists: log between it and the next file is lost`);
        start = next.oldest;
        const found = nextFile(archived, log, start);
        if (found.kind !== "file") continue;
        return { name: found.name, cursor: JSON.stringify(found.archived), data: readLogFile(server, found.name) };
      }
      return { name: next.name, cursor: JSON.stringify(next.archived), data: readLogFile(server, next.name) };
    }
  }

  /** Log that was lost while the archive was ended, before its first file. */
  #gapSince(before: Archived | undefined, log: AvailableLog, start: number | undefined) {
    if (before === undefined || start !== undefined) return undefined;
    const next = nextFile({ ...before, histories: [...before.histories, log.timeline] }, log);
    return next.kind === "missing" ? next : undefined;
  }

  confirm(cursor: string, missing?: string): Promise<Outcome> {
    return this.#changes.run(() => this.#confirm(cursor, missing));
  }

  async #confirm(cursor: string, missing: string | undefined): Promise<Outcome> {
    if (!this.#state.isEnabled) return { ok: false, error: "the log is not archived" };
    const archivedAt = new Date(this.#options.engine.clock.now()).toISOString();
    const before = this.#state.missing;
    const gap = missing ?? before;
    await this.#save({
      isEnabled: true,
      archived: parseCursor(cursor),
      archivedAt,
      ...(gap === undefined ? {} : { missing: gap }),
    });
    await this.#mark();
    return { ok: true };
  }

  /** Rejects unless this is a primary with a role. */
  async #available(): Promise<AvailableLog> {
    const { engine, server, primaryHost } = this.#options;
    const refused = new AgentError("SnapshotFailed", "this server is not the primary");
    if (!server.isRunning || primaryHost() !== engine.host) throw refused;
    const { standby, name } = await server.connection.one(
      `SELECT pg_is_in_recovery()::text AS standby,
         CASE WHEN pg_is_in_recovery() THEN '' ELSE pg_walfile_name(pg_current_wal_flush_lsn()) END AS name`,
    );
    const current = parseSegment(name ?? "");
    if (standby !== "false" || current === undefined) throw refused;
    const folder = join(server.files.data.path, "pg_wal");
    const history = await readFile(join(folder, historyName(current.timeline)), "utf8").catch(() => "");
    return {
      names: new Set(await readdir(folder)),
      timeline: current.timeline,
      switches: parseSwitches(history),
      current: current.number,
    };
  }

  /** The state counts once it is durable: otherwise a restart would forget that log must be kept. */
  async #save(state: ArchiveState): Promise<void> {
    const { files } = this.#options.server;
    await files.write(files.path("archive.json"), JSON.stringify(state), { isDurable: true });
    this.#state = state;
  }

  async #applyCommand(): Promise<void> {
    const { server } = this.#options;
    const marker = `${server.files.path("archived")}/%f`.replaceAll("'", `'\\''`);
    await server.setArchiveCommand(this.#state.isEnabled ? `test -e '${marker}'` : undefined);
  }

  #schedule(): void {
    if (this.#isEnded) return;
    const { clock, log } = this.#options.engine;
    const check = (): void =>
      void this.#check()
        .catch((error: unknown) => log.warn({ err: error }, "could not update the state of the log archive; retrying"))
        .finally(() => this.#schedule());
    this.#timer = clock.setTimer(checkMs, check, { background: true });
  }

  async #check(): Promise<void> {
    const { engine, server, primaryHost } = this.#options;
    const host = primaryHost();
    if (!server.isRunning || host === undefined) return;
    if (host !== engine.host) await this.#learn(host);
    await this.#changes.run(async () => {
      // An earlier attempt may have failed.
      await this.#applyCommand();
      if (this.#state.isEnabled) await this.#mark();
    });
  }

  /** A replica keeps and deletes log as its primary does. */
  async #learn(host: string): Promise<void> {
    const { connection: opened } = await connectToPeer(host, this.#options.engine);
    await using connection = opened;
    const [row] = await connection.run(
      `SELECT pg_is_in_recovery()::text AS standby, current_setting('synchronous_standby_names') AS synchronous,
         pg_read_file('../archive.json', 0, 1000000, true) AS state`,
    );
    if (row?.["standby"] !== "false" || this.#options.primaryHost() !== host) return;
    this.#options.synchronous.learn(row["synchronous"] ?? "");
    const state = row["state"] === null || row["state"] === undefined ? undefined : (JSON.parse(row["state"]) as ArchiveState);
    await this.#changes.run(async () => {
      const { isEnabled } = this.#state;
      if (JSON.stringify(state) === JSON.stringify(this.#state) || (state === undefined && !isEnabled)) return;
      if (this.#options.primaryHost() === host) await this.#save(state ?? { isEnabled: false, archived: nothingArchived });
    });
  }

  /** Creates the markers that the server's command looks for, and deletes those that it has found. */
  async #mark(): Promise<void> {
    const { files } = this.#options.server;
    const folder = files.path("archived");
    const ready = new Set(
      (await readdir(join(files.data.path, "pg_wal/archive_status")).catch(() => []))
        .filter((name) => name.endsWith(".ready"))
        .map((name) => name.slice(0, -".ready".length)),
    );
    const marked = new Set(await readdir(folder));
    this.#backlog = [...ready].filter((name) => !isArchived(name, this.#state.archived)).length;
    for (const name of ready) {
      if (marked.has(name) || !isArchived(name, this.#state.archived)) continue;
      await writeFile(join(folder, name), "");
      await files.own(join(folder, name));
    }
    for (const name of marked) if (!ready.has(name)) await rm(join(folder, name), { force: true });
  }
}

/** Reads a file of the log. Rejects if the server has reused it in the meantime. */
async function* readLogFile({ files }: ArchivingServer, name: string): AsyncGenerator<Uint8Array> {
  const path = join(files.data.path, "pg_wal", name);
  const before = await stat(path);
  const data = await readFile(path);
  const after = await stat(path).catch(() => undefined);
  const segment = parseSegment(name);
  // Each page names its position.
  const isIntact = segment === undefined || Number(data.readBigUInt64LE(8)) === startOf(segment.number);
  if (after?.ino !== before.ino || !isIntact) throw new AgentError("LogMissing", `${name} no longer exists`);
  for (let at = 0; at < data.length; at += chunkBytes) yield data.subarray(at, at + chunkBytes);
}

const chunkBytes = 262_144;
