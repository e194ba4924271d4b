import { sleep } from "@keelson/api-machinery/time";
import { AgentError, type EngineOptions } from "@keelson/middleware-agent";
import { majorOf } from "../server/installation.ts";
import { connectToPeer, type PeerAccess } from "../server/peer-connection.ts";
import type { PostgresConnection } from "../server/postgres-client.ts";
import type { Upstream } from "../server/postgres-config.ts";
import type { PostgresServer } from "../server/postgres-server.ts";
import { primaryHistory, standbyHistory } from "./primary-facts.ts";
import { dropSlots, ensureSlot, slotName } from "./replication-slot.ts";
import { type CatchUp, catchUpOf } from "./timeline.ts";

const [minRetryMs, maxRetryMs] = [200, 5_000];
/** Clean shutdown of a standby before a rewind. */
const stopTimeoutMs = 30_000;

/** Options of {@link Follower}. */
export interface FollowerOptions {
  readonly engine: EngineOptions & PeerAccess;
  readonly server: PostgresServer;
  /** Runs an action that starts or stops the server, one at a time. */
  readonly exclusively: (act: () => Promise<void>) => Promise<void>;
}

/**
 * Makes the server follow a primary, and repeats that until it does: a copy of a large database takes longer than any call may. A server
 * with data that its primary does not have is rewound; one that cannot be, or that lacks log that the primary has not kept, is copied.
 */
export class Follower {
  readonly #options: FollowerOptions;
  #work: { readonly host: string; readonly ending: AbortController } | undefined;
  /** The end of all work so far. */
  #done: Promise<void> = Promise.resolve();

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  /** Whether it is working towards following a primary. */
  get isWorking(): boolean {
    return this.#work !== undefined;
  }

  /**
   * Starts to follow a primary. Does nothing if it is already working on that. `mayServe`: while the primary does not respond, clients and other
   * agents may read the local data.
   */
  follow(host: string, mayServe = false): void {
    if (this.#work?.host === host) return;
    this.#work?.ending.abort();
    const work = { host, ending: new AbortController() };
    this.#work = work;
    // One loop at a time, and each can be canceled from the start.
    this.#done = this.#done
      .then(() => this.#retry(host, mayServe, work.ending.signal))
      .finally(() => {
        if (this.#work === work) this.#work = undefined;
      });
  }

  /** Ends the work and waits until it has. */
  async cancel(): Promise<void> {
    this.#work?.ending.abort();
    this.#work = undefined;
    await this.#done;
  }

  async #retry(host: string, mayServe: boolean, signal: AbortSignal): Promise<void> {
    const { server, exclusively, engine } = this.#options;
    const { clock, log } = engine;
    const serve = async (): Promise<void> => {
      if (signal.aborted || !server.isRunning || server.isOpen) return;
      await server.change({ isStandby: true, isOpen: true });
    };
    for (let delayMs = minRetryMs; !signal.aborted; delayMs = Math.min(delayMs * 2, maxRetryMs)) {
      try {
        if (await this.#attempt(host, signal)) return;
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error, primary: host }, "could not follow the primary; retrying");
        if (mayServe) await exclusively(serve).catch(() => undefined);
      }
      await sleep(clock, delayMs, signal).catch(() => undefined);
    }
  }

  /** Resolves to false if the other server is not a primary yet. */
  async #attempt(host: string, signal: AbortSignal): Promise<boolean> {
    const { engine, server, exclusively } = this.#options;
    const { connection: opened, login } = await connectToPeer(host, engine);
    await using connection = opened;
    if ((await primaryHistory(connection)) === undefined) return false;
    await requireVersion(connection, await server.version());
    const slot = await ensureSlot(connection, slotName(engine.podName), engine.log);
    const upstream = { ...server.upstreamOf(host, login), ...(slot === undefined ? {} : { slot }) };
    let isFollowing = false;
    await exclusively(async () => {
      if (signal.aborted) return;
      const mode = { isStandby: true, upstream, isOpen: true };
      const how = await this.#compare(connection, signal);
      if (how === undefined) return;
      isFollowing = true;
      if (how === "stream") {
        await server.change(mode);
        return dropSlots(server.connection);
      }
      // pg_rewind reads the timeline of the primary from its last checkpoint.
      if (how === "rewind") await connection.run("CHECKPOINT", [], 60_000);
      await server.stop(stopTimeoutMs);
      await this.#replaceData(how, upstream, signal);
      await server.start(mode, signal);
      await dropSlots(server.connection);
    });
    return isFollowing;
  }

  /** How to get the data of the primary; undefined if it is no longer the primary. */
  async #compare(connection: PostgresConnection, signal: AbortSignal): Promise<CatchUp | undefined> {
    const { server, engine } = this.#options;
    if (!server.isRunning && server.hasData) {
      try {
        await server.start({ isStandby: true, isOpen: false }, signal);
      } catch (error) {
        signal.throwIfAborted();
        engine.log.warn({ err: error }, "could not start with the local data; copying all data of the primary");
      }
    }
    const local = server.isRunning ? await standbyHistory(server.connection) : undefined;
    // Read last: until then, a replica may receive more than the primary had before.
    const primary = await primaryHistory(connection);
    if (primary === undefined) return undefined;
    return local === undefined ? "clone" : catchUpOf(local, primary);
  }

  async #replaceData(how: "rewind" | "clone", upstream: Upstream, signal: AbortSignal): Promise<void> {
    const { engine, server } = this.#options;
    const { log } = engine;
    if (how === "rewind") {
      try {
        log.warn({ primary: upstream.host }, "discarding data that the primary does not have");
        await server.rewind(upstream, signal);
        return;
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ err: error }, "could not rewind; copying all data of the primary");
      }
    } else log.info({ primary: upstream.host }, "copying all data of the primary");
    await server.clone(upstream, signal);
  }
}

/** Rejects if a server is of another major version: its data could be copied, but not used. */
async function requireVersion(connection: PostgresConnection, own: string): Promise<void> {
  const [row] = await connection.run("SELECT current_setting('server_version') AS version");
  const version = row?.["version"] ?? "";
  if (majorOf(version) === majorOf(own)) return;
  throw new AgentError(
    "InvalidConfig",
    `the primary is of version ${version}, and the programs of this Pod are of version ${own}`,
  );
}
