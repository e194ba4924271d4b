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
import { RedisCredentials } from "./credentials/redis-credentials.ts";
import { redisConfig } from "./redis-config.ts";
import { keysOf, RedisConnection } from "./redis-connection.ts";
import { isolationPassword, shutDownLeftover } from "./leftover-server.ts";
import { pointAt } from "./point-at.ts";
import { RedisParameters } from "./redis-parameters.ts";
import { certificateFiles, defaultTlsPort, type RedisTls, redisTls, writeCertificates } from "./redis-tls.ts";
import { promoteTarget, RedisFence } from "./redis-switchover.ts";
import { connectToPeer, fencePrimary, type Peers, repoint } from "./redis-peers.ts";
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
  readonly credentials: RedisCredentials;
  readonly #options: EngineOptions;
  readonly #server: ServerProcess;
  readonly #connection: RedisConnection;
  readonly #parameters: RedisParameters;
  readonly #fence: RedisFence;
  readonly #peers: Peers;
  readonly #roleFile: string;
  readonly #isolationPassword: string;
  readonly #tls: RedisTls | undefined;
  #record: RoleRecord | undefined;
  #isIsolated = true;

  constructor(options: EngineOptions) {
    const { program, clock, dataDir, password } = options;
    // Derived, so that the next agent can shut the server down if this one is killed.
    this.#isolationPassword = isolationPassword(password);
    this.#options = options;
    this.#server = new ServerProcess(program, clock);
    const tlsPort = Number(options.flags["tls-port"] ?? defaultTlsPort);
    const tls = (this.#tls = redisTls(options.tls, tlsPort));
    this.#connection = new RedisConnection({ ...options, tls, tlsPort, password: this.#isolationPassword });
    this.#parameters = new RedisParameters(this.#connection);
    this.#fence = new RedisFence(this.#connection, this.#parameters, join(dataDir, "keelson-fence.json"));
    this.#roleFile = join(dataDir, "keelson-role.json");
    const isIsolated = (): boolean => this.#isIsolated;
    const file = join(dataDir, "keelson-credentials.json");
    this.credentials = new RedisCredentials({ connection: this.#connection, file, password, isIsolated, log: options.log });
    this.#peers = {
      ...{ connection: this.#connection, parameters: this.#parameters, passwords: () => this.credentials.passwords },
      ...{ port: options.port, clock, log: options.log },
    };
    const current = (): string => this.credentials.password;
    const certificates = options.tls?.certificates;
    this.snapshots = new RedisSnapshots({
      ...options,
      ...{ tls, certificates, password: current, connection: this.#connection, isIsolated },
    });
  }

  get ended(): Promise<string> {
    return this.#server.ended;
  }

  async start(): Promise<void> {
    const { program, host, port, configFile, dataDir, log } = this.#options;
    await mkdir(dataDir, { recursive: true });
    const { parameters, hash } = await readParameters(configFile);
    this.#parameters.load(parameters, hash);
    await this.credentials.load();
    const { passwords } = this.credentials;
    await shutDownLeftover({ host, passwords, connection: this.#connection, clock: this.#options.clock, log });
    await discardData(dataDir, this.#options.rebuild, log);
    this.#record = (await readJson(this.#roleFile)) as RoleRecord | undefined;
    const isolated = { password: this.#isolationPassword, primaryPassword: this.credentials.password };
    const { tls: own } = this.#options;
    const files = own && (await writeCertificates(dataDir, own));
    const tls = this.#tls && files && { ...this.#tls, files };
    const config = redisConfig({ host, port, dataDir, parameters, ...isolated, tls });
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
        credentials: String(this.credentials.sequence),
        credentialsId: this.credentials.id,
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
    else await pointAt(this.#connection, assignment.primaryHost, port);
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
   * it. Clients see refused writes in the meantime. No acknowledged write is lost: the target is promoted only when it has every byte
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
    const outcome = await promoteTarget(order, {
      host,
      clock,
      log,
      connectTo: (target) => connectToPeer(this.#peers, target),
      connection: this.#connection,
      fence: this.#fence,
    });
    if (!outcome.ok) return outcome;
    await repoint(this.#peers, others, target);
    await pointAt(this.#connection, target, this.#options.port);
    await this.#save({ role: "replica", primaryHost: target, epoch });
    await this.#fence.lower();
    return { ok: true };
  }

  /**
   * Promotes this replica in place of its primary, which has failed. A primary that still answers is fenced first, and this
   * replica catches up with it. A primary that may be running but does not respond must be terminated before.
   */
  async #takeOver({ others, epoch, timeoutMs, isPrimaryDown, beforePromotion }: FailoverOrder): Promise<Outcome> {
    const record = this.#record;
    if (record === undefined || this.#isIsolated) return { ok: false, error: "this server was restarted and has no role" };
    if (epoch < record.epoch) return { ok: false, error: `epoch ${epoch} is older than ${record.epoch}` };
    const { host, log } = this.#options;
    const { role, master_host: primary = "" } = await this.#connection.info();
    if (role === "slave" && isPrimaryDown !== true) {
      const outcome = await fencePrimary(this.#peers, primary, timeoutMs);
      if (!outcome.ok) return outcome;
    }
    const permission = (await beforePromotion?.()) ?? { ok: true, epoch };
    if (!permission.ok) return permission;
    await this.promote(permission.epoch);
    log.warn({ primary, epoch: permission.epoch }, "promoted after the primary failed");
    await repoint(this.#peers, others, host);
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

  /** Setting any parameter of TLS reads all files again, including to the same value. */
  async reloadCertificates(): Promise<void> {
    const { dataDir, tls } = this.#options;
    if (tls === undefined) return;
    await writeCertificates(dataDir, tls);
    await this.#connection.run("CONFIG", "SET", "tls-cert-file", certificateFiles(dataDir).certificate);
  }

  isDown = (host: string): Promise<boolean> => this.#connection.isRefusedBy(host);

  guard = (timeoutMs: number | undefined): void => this.#server.guard(timeoutMs);

  /** Ends the isolation of a (re)started server. */
  async #admit(): Promise<void> {
    await this.credentials.admit(() => (this.#isIsolated = false));
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
