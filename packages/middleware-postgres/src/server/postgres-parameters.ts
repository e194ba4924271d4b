import { AgentError, type ReloadOutcome } from "@keelson/middleware-agent";
import { problemOf } from "./parameter-check.ts";
import { normalizeParameters } from "./postgres-config.ts";
import type { PostgresServer } from "./postgres-server.ts";

type Parameters = Readonly<Record<string, string>>;

/** The parameters of a running server. */
export class PostgresParameters {
  readonly #server: PostgresServer;
  #parameters: Parameters = {};
  #hash = "";

  constructor(server: PostgresServer) {
    this.#server = server;
  }

  /** Hash of the parameters in force. */
  get hash(): string {
    return this.#hash;
  }

  /** Records the parameters that the server was started with. */
  load(parameters: Parameters, hash: string): void {
    this.#parameters = parameters;
    this.#hash = hash;
  }

  /** Sets changed parameters: all of them, or none if one is rejected or needs a restart. The server classifies and checks them. */
  async reload(wanted: Parameters, hash: string): Promise<ReloadOutcome> {
    if (hash === this.#hash) return { ok: true };
    try {
      normalizeParameters(wanted);
    } catch (error) {
      if (error instanceof AgentError) return { ok: false, error: error.message };
      throw error;
    }
    const changed = [...new Set([...Object.keys(this.#parameters), ...Object.keys(wanted)])].filter(
      (name) => this.#parameters[name] !== wanted[name],
    );
    const problem = await problemOf(
      Object.fromEntries(Object.entries(wanted).filter(([name]) => changed.includes(name))),
      this.#server.files,
    );
    if (problem !== undefined) return { ok: false, error: problem };
    // While it has no data, the server starts with them.
    const cold = this.#server.isRunning ? await this.#needingRestart(changed) : [];
    if (cold.length > 0) return { ok: "restart", parameters: cold };
    await this.#server.setParameters(wanted);
    if (this.#server.isRunning) {
      const rejected = await this.#load(changed);
      if (rejected !== undefined) {
        await this.#server.setParameters(this.#parameters);
        await this.#server.reloadFiles();
        return { ok: false, error: rejected };
      }
    }
    this.load(wanted, hash);
    return { ok: true };
  }

  async #needingRestart(names: readonly string[]): Promise<readonly string[]> {
    const { cold } = await this.#server.connection.one(
      `SELECT coalesce(string_agg(name, ','), '') AS cold FROM pg_settings
       WHERE name = ANY(string_to_array(lower($1), ',')) AND context IN ('postmaster', 'internal')`,
      [names.join(",")],
    );
    const found = new Set((cold ?? "").split(","));
    return names.filter((name) => found.has(name.toLowerCase()));
  }

  /** Reloads the configuration. Resolves to the rejected settings. */
  async #load(changed: readonly string[]): Promise<string | undefined> {
    try {
      await this.#server.reloadFiles();
    } catch (error) {
      if (error instanceof AgentError) return error.message;
      throw error;
    }
    return this.#rejected(changed);
  }

  /** Settings that the server rejected when it loaded its configuration. */
  async #rejected(names: readonly string[]): Promise<string | undefined> {
    const { error } = await this.#server.connection.one(
      `SELECT string_agg(name || ': ' || error, '; ') AS error FROM pg_file_settings
       WHERE error IS NOT NULL AND name = ANY(string_to_array(lower($1), ','))`,
      [names.join(",")],
    );
    return error ?? undefined;
  }
}
