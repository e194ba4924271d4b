import { createHash } from "node:crypto";
import { join } from "node:path";
import { mkdir, writeFile } from "node:fs/promises";
import { sleep } from "@keelson/api-machinery/time";
import {
  AgentError,
  type Assignment,
  discardData,
  type EngineOptions,
  type EngineRole,
  type FailoverOrder,
  type MiddlewareEngine,
  type Outcome,
  type ProgramMetric,
  readJson,
  readParameters,
  type ReloadOutcome,
  ServerProcess,
  type StopOptions,
  writeJson,
} from "@keelson/middleware-agent";
import { readFigures } from "./metrics/read-figures.ts";
import { downMetrics, redisMetrics } from "./metrics/redis-metrics.ts";
import { redisConfig } from "./redis-config.ts";
import { keysOf, RedisConnection } from "./redis-connection.ts";
import { shutDownLeftover } from "./leftover-server.ts";
import { RedisParameters } from "./redis-parameters.ts";
import { hasCaughtUp, promoteTarget, RedisFence } from "./redis-switchover.ts";
import { RedisSnapshots } from "./redis-snapshots.ts";
import { RespError } from "./resp-client.ts";

/** The role of the server, persisted in its volume. */
type RoleRecord = Assignment;

const startTimeoutMs = 60_000;
const loading = "a snapshot is being loaded";

/**
 * Drives one redis-server or valkey-server process.
 *
 * A server that was (re)started is isolated until its role is assigned: it has another password and rejects writes. Neither clients
 * nor replicas can use it, so a primary that lost data never passes the loss on to its replicas.
 */
export class RedisEngine implements MiddlewareEngine {
  readonly snapshots: RedisSnapshots;
  readonly #options: EngineOptions;
  readonly #server: ServerProcess;
  readonly #connection: RedisConnection;
  readonly #parameters: RedisParameters;
  readonly #fence: RedisFence;
  readonly #roleFile: string;
  readonly #isolationPassword: string;
  #record: RoleRecord | undefined;
  #isIsolated = true;

  constructor(options: EngineOptions) {
    const { program, clock, dataDir, password } = options;
    // Derived, so that the next agent can shut the server down if this one is killed.
    this.#isolationPassword = createHash("sha256").update(`isolated:${password}`).digest("hex");
    this.#options = options;
    this.#server = new ServerProcess(program, clock);
    this.#connection = new RedisConnection({ ...options, password: this.#isolationPassword });
    this.#parameters = new RedisParameters(this.#connection);
    this.#fence = new RedisFence(this.#connection, this.#parameters, join(dataDir, "keelson-fence.json"));
    this.#roleFile = join(dataDir, "keelson-role.json");
    this.snapshots = new RedisSnapshots({ ...options, connection: this.#connection, isIsolated: () => this.#isIsolated });
  }

  get ended(): Promise<string> {
    return this.#server.ended;
  }

  async start(): Promise<void> {
    const { program, host, port, password, configFile, dataDir, log } = this.#options;
    await mkdir(dataDir, { recursive: true });
    const { parameters, hash } = await readParameters(configFile);
    this.#parameters.load(parameters, hash);
    await shutDownLeftover({ host, password, connection: this.#connection, clock: this.#options.clock, log });
    await discardData(dataDir, this.#options.rebuild, log);
    this.#record = (await readJson(this.#roleFile)) as RoleRecord | undefined;
    const isolated = { password: this.#isolationPassword, primaryPassword: password };
    const config = redisConfig({ host, port, dataDir, parameters, ...isolated });
    const file = join(dataDir, "redis.conf");
    await writeFile(file, config, { mode: 0o600 });
    const pid = this.#server.start([file], dataDir);
    await this.#waitUntilLoaded(pid);
    log.info({ pid, role: this.#record?.role ?? "unassigned" }, `${program} is listening on ${host}:${port}`);
  }

  async role(): Promise<EngineRole> {
    if (this.#server.isStopping) return { role: "stopped", info: {} };
    const fields = await this.#connection.info();
    const { host } = this.#options;
    if (fields.role === "master" && this.#record?.role === "replica" && !this.#isIsolated) {
      // Promoted by the agent of the previous primary.
      await this.#save({ role: "primary", primaryHost: host, epoch: this.#record.epoch + 1 });
    }
    // While it loads a snapshot, the primary follows its agent.
    const isReplica = fields.role === "slave" && !this.snapshots.isLoading;
    const isInSync =
      fields.loading === "0" && (!isReplica || (fields.master_link_status === "up" && fields.master_sync_in_progress === "0"));
    const assigned = isReplica ? "replica" : "primary";
    return {
      role: this.#record === undefined ? "unassigned" : this.#isIsolated ? "recovering" : assigned,
      info: {
        configHash: this.#parameters.hash,
        version: fields.valkey_version ?? fields.redis_version ?? "",
        isInSync: String(isInSync && !this.#isIsolated),
        primaryHost: isReplica ? (fields.master_host ?? "") : host,
        offset: (isReplica ? fields.slave_repl_offset : fields.master_repl_offset) ?? "0",
        epoch: String(this.#record?.epoch ?? 0),
        keys: String(keysOf(fields)),
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
    if (this.snapshots.isLoading) return { ok: false, error: loading };
    // Saved first, so that a restart in between continues with the new role.
    await this.#save(assignment.role === "primary" ? { ...assignment, primaryHost: host } : assignment);
    if (assignment.role === "primary") await this.#connection.run("REPLICAOF", "NO", "ONE");
    else await this.#connection.run("REPLICAOF", assignment.primaryHost, String(port));
    await this.#admit();
    await this.#fence.lower();
    return { ok: true };
  }

  reload(wanted: Readonly<Record<string, string>>, hash: string): Promise<ReloadOutcome> {
    return this.#parameters.reload(wanted, hash);
  }

  failover(order: FailoverOrder): Promise<Outcome> {
    return order.target === this.#options.host ? this.#takeOver(order) : this.#handOver(order);
  }

  stop(options: StopOptions): Promise<Outcome> {
    return this.#server.stop(options);
  }

  /**
   * Fences this primary, waits until the target has caught up, promotes the target, points the other replicas at it, and follows
   * it. Clients see refused writes meanwhile. No acknowledged write is lost: the target is promoted only when it has every byte
   * that the fenced primary wrote.
   *
   * The fence is persisted before it is raised: an agent that dies meanwhile keeps its server fenced until the controller retries.
   */
  async #handOver(requested: FailoverOrder): Promise<Outcome> {
    const { target, others, epoch, timeoutMs } = requested;
    const record = this.#record;
    if (record !== undefined && epoch <= record.epoch && record.role === "primary") {
      return { ok: false, error: `epoch ${epoch} must be newer than ${record.epoch}` };
    }
    if (this.#isIsolated) return { ok: false, error: "this server was restarted and has no role" };
    if (this.snapshots.isLoading) return { ok: false, error: loading };
    const fields = await this.#connection.info();
    if (fields.role === "slave") {
      return fields.master_host === target
        ? { ok: true }
        : { ok: false, error: `this server is a replica of ${fields.master_host}` };
    }
    const { host, clock, log } = this.#options;
    const order = { ...requested, timeoutMs, offset: Number(fields.master_repl_offset) };
    const outcome = await promoteTarget(order, { host, clock, log, connection: this.#connection, fence: this.#fence });
    if (!outcome.ok) return outcome;
    await this.#repoint(others, target);
    await this.#connection.run("REPLICAOF", target, String(this.#options.port));
    await this.#save({ role: "replica", primaryHost: target, epoch });
    await this.#fence.lower();
    return { ok: true };
  }

  /**
   * Promotes this replica in place of its primary, which has failed. A primary that still answers is fenced first, and this
   * replica catches up with it. A primary that may be running but does not answer must be terminated before.
   */
  async #takeOver({ others, epoch, timeoutMs, isPrimaryDown, beforePromotion }: FailoverOrder): Promise<Outcome> {
    const record = this.#record;
    if (record === undefined || this.#isIsolated) return { ok: false, error: "this server was restarted and has no role" };
    if (epoch < record.epoch) return { ok: false, error: `epoch ${epoch} is older than ${record.epoch}` };
    const { host, log } = this.#options;
    const { role, master_host: primary = "" } = await this.#connection.info();
    if (role === "slave" && isPrimaryDown !== true) {
      const outcome = await this.#fencePrimary(primary, timeoutMs);
      if (!outcome.ok) return outcome;
    }
    const permission = (await beforePromotion?.()) ?? { ok: true, epoch };
    if (!permission.ok) return permission;
    await this.promote(permission.epoch);
    log.warn({ primary, epoch: permission.epoch }, "promoted after the primary failed");
    await this.#repoint(others, host);
    return { ok: true };
  }

  async promote(epoch: number): Promise<void> {
    await this.#save({ role: "primary", primaryHost: this.#options.host, epoch });
    await this.#connection.run("REPLICAOF", "NO", "ONE");
    await this.#fence.lower();
  }

  fenceWrites(): Promise<void> {
    return RedisFence.raise(this.#connection);
  }

  isFenced(): Promise<boolean> {
    return RedisFence.isEffective(this.#connection);
  }

  async metrics(): Promise<readonly ProgramMetric[]> {
    try {
      return redisMetrics(await readFigures(this.#connection, this.#options.clock));
    } catch (error) {
      if (error instanceof RespError) return downMetrics;
      throw error;
    }
  }

  isDown(host: string): Promise<boolean> {
    return this.#connection.isRefusedBy(host);
  }

  guard(timeoutMs: number | undefined): void {
    this.#server.guard(timeoutMs);
  }

  /** Ensures that a failed primary accepts no writes any more, and that this replica has all that it accepted. */
  async #fencePrimary(primary: string, timeoutMs: number): Promise<Outcome> {
    const { password, clock } = this.#options;
    let peer: RedisConnection | undefined;
    try {
      peer = await this.#connection.connectTo(primary, password);
      if ((await peer.info("replication")).role === "slave") return { ok: true };
      await RedisFence.raise(peer);
      if (await hasCaughtUp(peer, this.#connection, timeoutMs, clock)) return { ok: true };
      await peer.run("CONFIG", "SET", "min-replicas-to-write", this.#parameters.minReplicasToWrite);
      return { ok: false, error: `could not catch up with the primary ${primary} within ${timeoutMs} ms` };
    } catch (error) {
      if (!(error instanceof RespError)) throw error;
      // No program is listening, or a restarted one is isolated and rejects the password.
      if (error.isConnectionRefused || error.code === "Refused") return { ok: true };
      return { ok: false, error: `the primary ${primary} does not answer: ${error.message}`, mustTerminate: true };
    } finally {
      peer?.close();
    }
  }

  /** Makes other replicas follow a new primary. Failures are logged: the controller repeats this when they answer. */
  async #repoint(others: readonly string[], primary: string): Promise<void> {
    const { password, port, log } = this.#options;
    for (const other of others) {
      try {
        const peer = await this.#connection.connectTo(other, password);
        await peer.run("REPLICAOF", primary, String(port));
        peer.close();
      } catch (error) {
        log.warn({ err: error, other }, "could not make a replica follow the new primary");
      }
    }
  }

  /** Ends the isolation of a (re)started server. */
  async #admit(): Promise<void> {
    const { password } = this.#options;
    await this.#connection.run("CONFIG", "SET", "requirepass", password);
    this.#connection.password = password;
    this.#isIsolated = false;
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
}
