import type { ReloadOutcome } from "@keelson/middleware-agent";
import type { RedisConnection } from "./redis-connection.ts";
import { RespError } from "./resp-client.ts";

type Parameters = Readonly<Record<string, string>>;

/** The parameters of a running Redis server. */
export class RedisParameters {
  readonly #connection: RedisConnection;
  #parameters: Parameters = {};
  #hash = "";

  constructor(connection: RedisConnection) {
    this.#connection = connection;
  }

  /** Hash of the parameters in force. */
  get hash(): string {
    return this.#hash;
  }

  /** The configured `min-replicas-to-write`. A fence overrides it. */
  get minReplicasToWrite(): string {
    return this.#parameters["min-replicas-to-write"] ?? "0";
  }

  /** Records the parameters that the server was started with. */
  load(parameters: Parameters, hash: string): void {
    this.#parameters = parameters;
    this.#hash = hash;
  }

  /** Sets changed parameters at runtime: all of them, or none if one is rejected or needs a restart. */
  async reload(wanted: Parameters, hash: string): Promise<ReloadOutcome> {
    if (hash === this.#hash) return { ok: true };
    const changed = [...new Set([...Object.keys(this.#parameters), ...Object.keys(wanted)])].filter(
      (name) => this.#parameters[name] !== wanted[name],
    );
    const before = new Map<string, string>();
    const needsRestart: string[] = [];
    for (const name of changed) {
      const [, value] = (await this.#connection.run("CONFIG", "GET", name)) as readonly string[];
      // Unknown to CONFIG, or reset to a default that only a start knows.
      if (value === undefined || wanted[name] === undefined) needsRestart.push(name);
      else {
        before.set(name, value);
        // Setting the current value shows whether the parameter can be set at runtime.
        if ((await this.#set(name, value)) !== undefined) needsRestart.push(name);
      }
    }
    if (needsRestart.length > 0) return { ok: "restart", parameters: needsRestart };
    const done: string[] = [];
    for (const name of changed) {
      const error = await this.#set(name, wanted[name] ?? "");
      if (error !== undefined) {
        for (const each of done.reverse()) await this.#set(each, before.get(each) ?? "");
        return { ok: false, error: `${name} ${wanted[name]}: ${error}` };
      }
      done.push(name);
    }
    this.load(wanted, hash);
    return { ok: true };
  }

  /** Sets a parameter. Resolves to the error message if the server rejects it. */
  async #set(name: string, value: string): Promise<string | undefined> {
    try {
      await this.#connection.run("CONFIG", "SET", name, value);
      return undefined;
    } catch (error) {
      if (error instanceof RespError && error.code === "Refused") return error.message;
      throw error;
    }
  }
}
