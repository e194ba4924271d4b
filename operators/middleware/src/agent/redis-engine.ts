import { join } from "node:path";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { isJsonObject } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { AgentError } from "./agent-error.ts";
import type { Assignment, Engine, EngineRole, FailoverOrder, Outcome, ReloadOutcome, StopOptions } from "./engine.ts";
import { readJson, writeJson } from "./json-file.ts";
import { fence, redisConfig } from "./redis-config.ts";
import { type RedisInfo, RedisConnection } from "./redis-connection.ts";
import { RedisParameters } from "./redis-parameters.ts";
import { RespError } from "./resp-client.ts";
import { ServerProcess } from "./server-process.ts";

/** Options of {@link RedisEngine}. */
export interface RedisEngineOptions {
  /** `redis-server`, `valkey-server`, or a path. */
  readonly program: string;
  /** Address of the Pod. The server listens only there. */
  readonly host: string;
  readonly port: number;
  readonly password: string;
  /** File with `{"hash": ..., "parameters": {...}}`. */
  readonly configFile: string;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The role of the server, persisted in its volume. */
interface RoleRecord {
  readonly role: "primary" | "replica";
  readonly primaryHost: string;
  readonly epoch: number;
}

const startTimeoutMs = 60_000;
/** Maximum replication lag of a replica at the start of a switchover. */
const maxLagBytes = 16 * 1_048_576;

/** Drives one redis-server or valkey-server process. */
export class RedisEngine implements Engine {
  readonly #options: RedisEngineOptions;
  readonly #server: ServerProcess;
  readonly #connection: RedisConnection;
  readonly #parameters: RedisParameters;
  readonly #roleFile: string;
  readonly #fenceFile: string;
  #record: RoleRecord | undefined;

  constructor(options: RedisEngineOptions) {
    const { program, clock, dataDir } = options;
    this.#options = options;
    this.#server = new ServerProcess(program, clock);
    this.#connection = new RedisConnection(options);
    this.#parameters = new RedisParameters(this.#connection);
    this.#roleFile = join(dataDir, "keelson-role.json");
    this.#fenceFile = join(dataDir, "keelson-fence.json");
  }

  get ended(): Promise<string> {
    return this.#server.ended;
  }

  async start(): Promise<void> {
    const { program, host, port, password, configFile, dataDir, log } = this.#options;
    await mkdir(dataDir, { recursive: true });
    this.#record = (await readJson(this.#roleFile)) as RoleRecord | undefined;
    const wanted = await readJson(configFile);
    if (!isJsonObject(wanted) || !isJsonObject(wanted.parameters))
      throw new AgentError("InvalidConfig", `${configFile}: parameters: must be an object`);
    const parameters = Object.fromEntries(Object.entries(wanted.parameters).map(([key, value]) => [key, String(value)]));
    this.#parameters.load(parameters, String(wanted.hash ?? ""));
    const record = this.#record;
    const config = redisConfig({
      ...{ host, port, password, dataDir, parameters },
      // A server without a role takes no writes, nor does one whose switchover was interrupted: see failover.
      isFenced: record === undefined || (await readJson(this.#fenceFile)) !== undefined,
      follows: record?.role === "replica" ? record.primaryHost : undefined,
    });
    const file = join(dataDir, "redis.conf");
    await writeFile(file, config, { mode: 0o600 });
    const pid = this.#server.start([file], dataDir);
    await this.#waitUntilLoaded(pid);
    log.info(
      { pid, role: record?.role ?? "unassigned", hash: this.#parameters.hash },
      `${program} is listening on ${host}:${port}`,
    );
  }

  async role(): Promise<EngineRole> {
    if (this.#server.isStopping) return { role: "stopped", info: {} };
    const fields = await this.#connection.info();
    const { host } = this.#options;
    if (fields.role === "master" && this.#record?.role === "replica") {
      // Promoted by the agent of the previous primary.
      await this.#save({ role: "primary", primaryHost: host, epoch: this.#record.epoch + 1 });
    }
    const isReplica = fields.role === "slave";
    const isInSync =
      fields.loading === "0" && (!isReplica || (fields.master_link_status === "up" && fields.master_sync_in_progress === "0"));
    return {
      role: isReplica ? "replica" : this.#record === undefined ? "unassigned" : "primary",
      info: {
        configHash: this.#parameters.hash,
        version: fields.valkey_version ?? fields.redis_version ?? "",
        isInSync: String(isInSync),
        primaryHost: isReplica ? (fields.master_host ?? "") : host,
        offset: (isReplica ? fields.slave_repl_offset : fields.master_repl_offset) ?? "0",
        epoch: String(this.#record?.epoch ?? 0),
        pid: fields.process_id ?? "",
      },
    };
  }

  async assign(assignment: Assignment): Promise<Outcome> {
    const { host, port } = this.#options;
    const record = this.#record;
    if (record !== undefined && assignment.epoch < record.epoch) {
      return { ok: false, error: `epoch ${assignment.epoch} is older than ${record.epoch}` };
    }
    // Saved first, so that a restart in between continues with the new role.
    await this.#save(assignment.role === "primary" ? { ...assignment, primaryHost: host } : assignment);
    if (assignment.role === "primary") await this.#connection.run("REPLICAOF", "NO", "ONE");
    else await this.#connection.run("REPLICAOF", assignment.primaryHost, String(port));
    await this.#unfence();
    return { ok: true };
  }

  reload(wanted: Readonly<Record<string, string>>, hash: string): Promise<ReloadOutcome> {
    return this.#parameters.reload(wanted, hash);
  }

  /**
   * Fences this primary, waits until the target has caught up, promotes the target, points the other replicas at it, and follows
   * it. Clients see refused writes meanwhile. No acknowledged write is lost: the target is promoted only when it has every byte
   * that the fenced primary wrote.
   *
   * The fence is persisted before it is raised: an agent that dies meanwhile keeps its server fenced until the controller retries.
   */
  async failover({ target, others, epoch, timeoutMs }: FailoverOrder): Promise<Outcome> {
    const record = this.#record;
    if (record !== undefined && epoch <= record.epoch && record.role === "primary") {
      return { ok: false, error: `epoch ${epoch} must be newer than ${record.epoch}` };
    }
    const fields = await this.#connection.info();
    if (fields.role === "slave") {
      return fields.master_host === target
        ? { ok: true }
        : { ok: false, error: `this server is a replica of ${fields.master_host}` };
    }
    const outcome = await this.#promote(target, epoch, timeoutMs, Number(fields.master_repl_offset));
    if (!outcome.ok) return outcome;
    await this.#repoint(others, target);
    await this.#connection.run("REPLICAOF", target, String(this.#options.port));
    await this.#save({ role: "replica", primaryHost: target, epoch });
    await this.#unfence();
    return { ok: true };
  }

  stop(options: StopOptions): Promise<Outcome> {
    return this.#server.stop(options);
  }

  async #promote(target: string, epoch: number, timeoutMs: number, offset: number): Promise<Outcome> {
    const { log } = this.#options;
    const peer = await this.#connection.connectTo(target).catch((error: unknown) => {
      if (error instanceof RespError) return error;
      throw error;
    });
    if (peer instanceof RespError) return { ok: false, error: `the target does not answer: ${peer.message}` };
    try {
      const seen = await peer.info();
      if (seen.role === "master" && (await readJson(this.#fenceFile)) !== undefined) return { ok: true };
      const obstacle = this.#switchoverObstacle(seen, offset);
      if (obstacle !== undefined) return { ok: false, error: obstacle };
      await writeJson(this.#fenceFile, { target, epoch });
      await this.#connection.run("CONFIG", "SET", "min-replicas-to-write", fence);
      if (!(await this.#hasCaughtUp(peer, timeoutMs))) {
        await this.#unfence();
        return { ok: false, error: `the target did not catch up within ${timeoutMs} ms` };
      }
      await peer.run("REPLICAOF", "NO", "ONE");
      return { ok: true };
    } catch (error) {
      // It is not known whether the target was promoted: stay fenced until the controller retries.
      log.warn({ err: error, target }, "switchover interrupted; writes stay fenced until it is retried");
      throw error;
    } finally {
      peer.close();
    }
  }

  #switchoverObstacle(seen: RedisInfo, offset: number): string | undefined {
    if (seen.role !== "slave") return "the target is not a replica";
    if (seen.master_host !== this.#options.host) return `the target follows ${seen.master_host}`;
    if (seen.master_link_status !== "up" || seen.master_sync_in_progress !== "0")
      return "the target is not in sync: its replication link is down";
    const lag = offset - Number(seen.slave_repl_offset);
    return lag > maxLagBytes ? `the target lags ${lag} bytes behind` : undefined;
  }

  async #hasCaughtUp(peer: RedisConnection, timeoutMs: number): Promise<boolean> {
    const { clock } = this.#options;
    const deadline = clock.monotonic() + timeoutMs;
    for (;;) {
      const written = Number((await this.#connection.info()).master_repl_offset);
      if (Number((await peer.info("replication")).slave_repl_offset) >= written) return true;
      if (clock.monotonic() > deadline) return false;
      await sleep(clock, 2);
    }
  }

  /** Makes other replicas follow a new primary. Failures are logged: the controller repeats this when they answer. */
  async #repoint(others: readonly string[], primary: string): Promise<void> {
    for (const other of others) {
      try {
        const peer = await this.#connection.connectTo(other);
        await peer.run("REPLICAOF", primary, String(this.#options.port));
        peer.close();
      } catch (error) {
        this.#options.log.warn({ err: error, other }, "could not point a replica at the new primary");
      }
    }
  }

  async #waitUntilLoaded(pid: number | undefined): Promise<void> {
    const { host, port, clock } = this.#options;
    const deadline = clock.monotonic() + startTimeoutMs;
    for (;;) {
      if (this.#server.failure !== undefined) throw new AgentError("ProgramExited", this.#server.failure);
      try {
        const fields = await this.#connection.info();
        // A leftover process on the same port would answer too.
        if (fields.process_id !== String(pid))
          throw new AgentError("PortInUse", `another process (${fields.process_id}) is listening on ${host}:${port}`);
        if (fields.loading === "0") return;
      } catch (error) {
        if (!(error instanceof RespError) || clock.monotonic() > deadline) {
          this.#server.kill();
          throw error;
        }
      }
      // There is no notification for a listening server.
      await sleep(clock, 20);
    }
  }

  async #save(next: RoleRecord): Promise<void> {
    await writeJson(this.#roleFile, next);
    this.#record = next;
  }

  async #unfence(): Promise<void> {
    await this.#connection.run("CONFIG", "SET", "min-replicas-to-write", this.#parameters.minReplicasToWrite);
    await rm(this.#fenceFile, { force: true });
  }
}
