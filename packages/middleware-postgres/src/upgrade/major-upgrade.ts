import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { AgentError, type EngineOptions, type Outcome, type UpgradeEngine } from "@keelson/middleware-agent";
import { majorOf, programsOf } from "../server/installation.ts";
import { superuser } from "../server/postgres-client.ts";
import type { PostgresServer } from "../server/postgres-server.ts";
import { requireTool } from "../server/run-tool.ts";
import { readState } from "../server/server-state.ts";
import { parseControlData } from "./control-data.ts";
import { UpgradedCluster } from "./upgraded-cluster.ts";

/** What {@link MajorUpgrade} takes. */
export interface MajorUpgradeOptions {
  readonly engine: Pick<EngineOptions, "log" | "port">;
  readonly server: PostgresServer;
  /** Runs an action that starts or stops the server, one at a time. */
  readonly exclusively: <T>(act: () => Promise<T>) => Promise<T>;
}

/** From this version on, `pg_upgrade` transfers most statistics. */
const transfersStatistics = 18;

/**
 * Upgrades the data to the major version of the programs, with `pg_upgrade`. It works on a copy, which replaces the data when it is complete. So
 * until then the programs of the old version can use the data again, and an interrupted upgrade is repeated from the beginning.
 */
export class MajorUpgrade implements UpgradeEngine {
  readonly #options: MajorUpgradeOptions;
  readonly #ending = new AbortController();
  #state: string | undefined;
  #work: Promise<void> = Promise.resolve();
  #position = 0;

  constructor(options: MajorUpgradeOptions) {
    this.#options = options;
  }

  /** What the agent reports while the data needs an upgrade. */
  get info(): Readonly<Record<string, string>> {
    const { server } = this.#options;
    if (!server.isForeign) return {};
    return { dataVersion: server.files.data.version, ...(this.#state === undefined ? {} : { upgrade: this.#state }) };
  }

  /** End of the log of data that needs an upgrade. 0 if that is not known. */
  get position(): number {
    return this.#position;
  }

  /** Reads what it reports about the data. */
  async load(): Promise<void> {
    const { files, isForeign } = this.#options.server;
    const programs = isForeign ? programsOf(files.data.version, files.installations) : undefined;
    if (programs === undefined) return;
    const text = await requireTool(join(programs, "pg_controldata"), [files.data.path], files.tool);
    this.#position = parseControlData(text).position;
  }

  async check(version: string): Promise<Outcome> {
    const { server } = this.#options;
    const { files, parameters } = server;
    const next = this.#programsOf(majorOf(version));
    if (!next.ok) return next;
    if (!server.isRunning || (await readState(server.connection)).isStandby)
      return { ok: false, error: "this server is not the primary" };
    const cluster = new UpgradedCluster(files, { old: files.programs, next: next.programs }, this.#ending.signal);
    try {
      await cluster.create();
      const problem = await cluster.problemOf(parameters);
      if (problem !== undefined) return { ok: false, error: problem };
      await cluster.upgrade(true);
      return { ok: true };
    } catch (error) {
      if (error instanceof AgentError) return { ok: false, error: error.message };
      throw error;
    } finally {
      await cluster.remove();
    }
  }

  async start(): Promise<Outcome> {
    const { server, exclusively, engine } = this.#options;
    if (this.#state === "running" || !server.isForeign) return { ok: true };
    const from = server.files.data.version;
    this.#state = "running";
    this.#work = exclusively(() => this.#upgrade(from)).catch((error: unknown) => {
      this.#state = `failed: ${error instanceof Error ? error.message : String(error)}`;
      engine.log.error({ err: error }, "could not upgrade the data");
    });
    return { ok: true };
  }

  /** Throws while the data needs an upgrade: the server cannot become the primary. */
  requireUpgraded(): void {
    const { isForeign, files } = this.#options.server;
    if (isForeign) throw new AgentError("InvalidConfig", `the data of version ${files.data.version} must be upgraded first`);
  }

  /** Ends an upgrade, and waits until it has ended. */
  async end(): Promise<void> {
    this.#ending.abort();
    await this.#work;
  }

  /** Creates the statistics that were not upgraded, while the server serves clients. */
  analyze(): void {
    const { files } = this.#options.server;
    if (!existsSync(this.#marker)) return;
    const { log, port } = this.#options.engine;
    const isPartial = Number(files.data.version) >= transfersStatistics;
    const options = ["--all", "--analyze-in-stages", ...(isPartial ? ["--missing-stats-only"] : [])];
    const address = [`--host=${files.path("run")}`, `--port=${port}`, `--username=${superuser}`];
    void requireTool(files.program("vacuumdb"), [...options, ...address], { ...files.tool, signal: this.#ending.signal })
      .then(() => rm(this.#marker, { force: true }))
      .catch((error: unknown) => log.warn({ err: error }, "could not create the statistics of upgraded data"));
  }

  get #marker(): string {
    return this.#options.server.files.path("without-statistics");
  }

  async #upgrade(from: string): Promise<void> {
    const { server, engine } = this.#options;
    const { files } = server;
    const old = this.#programsOf(from);
    if (!old.ok) throw new AgentError("InvalidConfig", old.error);
    engine.log.info({ from }, "upgrading the data");
    const cluster = new UpgradedCluster(files, { old: old.programs, next: files.programs }, this.#ending.signal);
    try {
      const control = await cluster.create();
      if (!control.isShutDown) await cluster.recover();
      await cluster.upgrade(false);
      await cluster.beginTimeline(control);
      await files.write(this.#marker, "", { isDurable: true });
      this.#ending.signal.throwIfAborted();
      await files.data.replace(cluster.path);
    } finally {
      await cluster.remove();
    }
    this.#state = undefined;
    // Its first start as a primary records settings without which it cannot start as a standby.
    await server.start({ isStandby: false, isOpen: false });
    engine.log.info({ from, to: files.data.version }, "upgraded the data");
  }

  #programsOf(
    major: string,
  ): { readonly ok: true; readonly programs: string } | { readonly ok: false; readonly error: string } {
    const { installations } = this.#options.server.files;
    const programs = programsOf(major, installations);
    if (programs !== undefined) return { ok: true, programs };
    const error = `the programs of version ${major} are not in ${join(installations, major, "bin")}: an upgrade needs those of both versions`;
    return { ok: false, error };
  }
}
