import { join } from "node:path";
import {
  AgentError,
  type Assignment,
  discardData,
  type EngineOptions,
  type EngineRole,
  type FailoverOrder,
  type MiddlewareEngine,
  type Outcome,
  readJson,
  readParameters,
  type ReloadOutcome,
  type StopOptions,
  writeJson,
} from "@keelson/middleware-agent";
import { amountOf, type AssignmentRecord } from "./assignment-record.ts";
import { Follower } from "./follower.ts";
import { isConnectionRefused } from "./postgres-client.ts";
import { PostgresParameters } from "./postgres-parameters.ts";
import { PostgresServer } from "./postgres-server.ts";
import { readState, type ServerState } from "./server-state.ts";
import { fencePrimary, switchOver } from "./switchover.ts";

/** A replica that has not streamed for this long compares its data with that of its primary again. */
const repairMs = 3_000;
const isolated = { isStandby: true, isOpen: false } as const;
const promoteTimeoutMs = 25_000;
const fenceTimeoutMs = 1_500;

/**
 * Drives one PostgreSQL server.
 *
 * A server that was (re)started is a standby without an upstream that accepts only its agent: it neither serves clients nor writes a byte
 * to its log, so it can follow another primary afterwards. A primary that is fenced is restarted in that state, which holds against
 * connected clients too.
 */
export class PostgresEngine implements MiddlewareEngine {
  readonly #options: EngineOptions;
  readonly #server: PostgresServer;
  readonly #parameters: PostgresParameters;
  readonly #follower: Follower;
  readonly #roleFile: string;
  #record: AssignmentRecord | undefined;
  #saving: Promise<void> = Promise.resolve();
  #version = "";
  /** Whether its role was assigned since it was started. */
  #isAdmitted = false;
  #isFenced = false;
  #isStopping = false;
  #last: Promise<unknown> = Promise.resolve();
  #outOfSyncSince: number | undefined;
  #position = 0;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#server = new PostgresServer(options);
    this.#parameters = new PostgresParameters(this.#server);
    this.#follower = new Follower({
      engine: options,
      server: this.#server,
      exclusively: (act) => this.#exclusively(act),
    });
    this.#roleFile = join(options.dataDir, "keelson-role.json");
  }

  get ended(): Promise<string> {
    return this.#server.ended;
  }

  async start(): Promise<void> {
    const { configFile, dataDir, rebuild, log } = this.#options;
    const { parameters, hash } = await readParameters(configFile);
    this.#parameters.load(parameters, hash);
    await this.#server.prepare(parameters);
    await discardData(dataDir, rebuild, log);
    await this.#server.prepare(parameters);
    this.#version = await this.#server.version();
    this.#record = (await readJson(this.#roleFile)) as AssignmentRecord | undefined;
    if (this.#server.hasData) await this.#server.start(isolated);
  }

  async role(): Promise<EngineRole> {
    if (this.#isStopping) return { role: "stopped", info: {} };
    const { host } = this.#options;
    const record = this.#record;
    const state = this.#server.isRunning ? await readState(this.#server.connection) : undefined;
    this.#position = state?.position ?? this.#position;
    await this.#recordPromotion(state);
    const isReplica = this.#isAdmitted && record?.role === "replica";
    const isInSync = isReplica ? this.#isStreaming(state, record.primaryHost) : state?.isStandby === false && this.#isAdmitted;
    if (isReplica && isInSync && record.isPending === true) await this.#save({ ...record, isPending: false }, record);
    if (isReplica) this.#repair(isInSync, record.primaryHost);
    return {
      role: this.#roleName(state),
      info: {
        configHash: this.#parameters.hash,
        version: this.#version,
        isInSync: String(isInSync),
        primaryHost: isReplica ? record.primaryHost : host,
        // A server that is being rewound or copied cannot be promoted.
        offset: String(amountOf(state?.position ?? 0, record)),
        epoch: String(this.#record?.epoch ?? 0),
        // After a restart of all Pods, the log is the measure of the data.
        keys: String(amountOf(this.#server.hasData ? this.#position : 0, record)),
        pid: state?.pid ?? "",
        timeline: state?.timeline ?? "",
        replayLagBytes: String(state?.replayLagBytes ?? 0),
        synchronousReplicas: String(state?.synchronousReplicas ?? 0),
      },
    };
  }

  async assign(assignment: Assignment): Promise<Outcome> {
    const { host, log } = this.#options;
    const { role, primaryHost, epoch } = assignment;
    if (this.#record !== undefined && epoch < this.#record.epoch)
      return { ok: false, error: `epoch ${epoch} is older than ${this.#record.epoch}` };
    if (role === "replica") {
      // Saved first, so that a restart in between continues with the new role.
      const record = this.#record;
      await this.#save({ ...assignment, isPending: record?.role === "primary" || record?.isPending === true });
      if (this.#isAdmitted === false) log.info({ primary: primaryHost }, "becoming a replica");
      this.#isAdmitted = true;
      this.#isFenced = false;
      this.#follower.follow(primaryHost);
      return { ok: true };
    }
    await this.#follower.cancel();
    await this.#exclusively(() => this.#becomePrimary({ role, primaryHost: host, epoch }));
    return { ok: true };
  }

  reload(wanted: Readonly<Record<string, string>>, hash: string): Promise<ReloadOutcome> {
    return this.#exclusively(() => this.#parameters.reload(wanted, hash));
  }

  failover(order: FailoverOrder): Promise<Outcome> {
    return order.target === this.#options.host ? this.#takeOver(order) : this.#exclusively(() => this.#handOver(order));
  }

  async fenceWrites(): Promise<void> {
    await this.#follower.cancel();
    await this.#exclusively(async () => {
      this.#isFenced = true;
      if (!this.#server.hasData || (this.#server.isRunning && (await readState(this.#server.connection)).isStandby)) return;
      await this.#server.stop(fenceTimeoutMs);
      await this.#server.start(isolated);
    });
  }

  async isFenced(): Promise<boolean> {
    return !this.#server.isRunning || (await readState(this.#server.connection)).isStandby;
  }

  async promote(epoch: number): Promise<void> {
    await this.#follower.cancel();
    await this.#exclusively(() => this.#becomePrimary({ role: "primary", primaryHost: this.#options.host, epoch }));
  }

  isDown(host: string): Promise<boolean> {
    return isConnectionRefused(host, this.#options.port, 1_000);
  }

  guard(timeoutMs: number | undefined): void {
    this.#server.guard(timeoutMs);
  }

  async stop({ timeoutMs, force }: StopOptions): Promise<Outcome> {
    this.#isStopping = true;
    this.#server.interrupt();
    await this.#follower.cancel();
    return this.#exclusively(() => this.#server.end(timeoutMs, force));
  }

  #roleName(state: ServerState | undefined): EngineRole["role"] {
    const record = this.#record;
    if (record === undefined || !this.#isAdmitted) return this.#server.hasData ? "recovering" : "unassigned";
    if (record.role === "replica") return "replica";
    return state?.isStandby === false || this.#isFenced ? "primary" : "recovering";
  }

  /** The agent of the previous primary promotes this server directly. */
  async #recordPromotion(state: ServerState | undefined): Promise<void> {
    const record = this.#record;
    if (state?.isStandby !== false || record?.role !== "replica" || !this.#isAdmitted || this.#follower.isWorking) return;
    await this.#save({ role: "primary", primaryHost: this.#options.host, epoch: record.epoch + 1 }, record);
    if (!this.#server.isRaised) return;
    void this.#exclusively(() => this.#restartAsPrimary(true)).catch((error: unknown) =>
      this.#options.log.warn({ err: error }, "could not lower settings"),
    );
  }

  /** Settings that a standby could not lower take effect. */
  async #restartAsPrimary(isOpen: boolean): Promise<void> {
    if (!this.#server.isRaised) return;
    await this.#server.stop(promoteTimeoutMs);
    await this.#server.start({ isStandby: false, isOpen });
  }

  #isStreaming(state: ServerState | undefined, primaryHost: string): boolean {
    return state?.isStandby === true && !this.#follower.isWorking && state.streamsFrom === primaryHost && state.isCaughtUp;
  }

  /** A replica may be ahead of a new primary, or lack log that its primary has not kept: only a comparison shows that. */
  #repair(isInSync: boolean, primaryHost: string): void {
    const now = this.#options.clock.monotonic();
    if (isInSync || this.#follower.isWorking) this.#outOfSyncSince = undefined;
    else this.#outOfSyncSince ??= now;
    if (this.#outOfSyncSince === undefined || now - this.#outOfSyncSince < repairMs) return;
    this.#outOfSyncSince = undefined;
    this.#follower.follow(primaryHost);
  }

  async #becomePrimary(assignment: Assignment): Promise<void> {
    const server = this.#server;
    if (server.isIncomplete) throw new AgentError("ProgramExited", "the data is incomplete: its rewind was interrupted");
    await this.#save(assignment);
    if (!server.hasData) await server.initialize();
    if (!server.isRunning) await server.start({ isStandby: false, isOpen: false });
    if ((await readState(server.connection)).isStandby) await this.#endRecovery();
    else if (this.#isAdmitted && server.isOpen) return;
    const password = this.#options.password.replaceAll("'", "''");
    // Data of a backup has the password of another App.
    await server.connection.one(`ALTER ROLE postgres PASSWORD '${password}'`);
    await server.change({ isStandby: false, isOpen: true });
    this.#isAdmitted = true;
    this.#isFenced = false;
  }

  async #endRecovery(): Promise<void> {
    const server = this.#server;
    const { done } = await server.connection.long("SELECT pg_promote(true, 20)::text AS done", promoteTimeoutMs);
    if (done !== "true") throw new AgentError("ProgramExited", "the server was not promoted within 20 s");
    await this.#restartAsPrimary(false);
  }

  async #handOver(order: FailoverOrder): Promise<Outcome> {
    const record = this.#record;
    if (!this.#isAdmitted || record === undefined) return { ok: false, error: "this server was restarted and has no role" };
    if (record.role === "replica") {
      const isDone = record.primaryHost === order.target;
      return isDone ? { ok: true } : { ok: false, error: `this server is a replica of ${record.primaryHost}` };
    }
    if (order.epoch <= record.epoch) return { ok: false, error: `epoch ${order.epoch} must be newer than ${record.epoch}` };
    const handOver = switchOver(order, { ...this.#options, server: this.#server });
    // If it rejects, the target may have been promoted.
    const result = await handOver.catch((error: unknown) => {
      this.#isAdmitted = false;
      throw error;
    });
    if (result.kind === "refused") return { ok: false, error: result.error };
    if (result.kind === "fenced") {
      // The role must be assigned again.
      this.#isAdmitted = false;
      if (result.mayResume) await this.#becomePrimary(record);
      return { ok: false, error: result.error };
    }
    // It has all data of its successor, which was promoted at the end of its log.
    await this.#save({ role: "replica", primaryHost: order.target, epoch: order.epoch });
    this.#follower.follow(order.target);
    return { ok: true };
  }

  async #takeOver({ epoch, isPrimaryDown, beforePromotion }: FailoverOrder): Promise<Outcome> {
    const record = this.#record;
    if (record === undefined || !this.#isAdmitted) return { ok: false, error: "this server was restarted and has no role" };
    if (epoch < record.epoch) return { ok: false, error: `epoch ${epoch} is older than ${record.epoch}` };
    const { host, port, password, log } = this.#options;
    if (record.role === "replica" && isPrimaryDown !== true) {
      const outcome = await fencePrimary({ host: record.primaryHost, port, password });
      if (!outcome.ok) return outcome;
    }
    if (!this.#server.isRunning) return { ok: false, error: "this server has no data yet" };
    const permission = (await beforePromotion?.()) ?? { ok: true, epoch };
    if (!permission.ok) return permission;
    await this.promote(permission.epoch);
    log.warn({ primary: record.primaryHost, host, epoch: permission.epoch }, "promoted after the primary failed");
    return { ok: true };
  }

  /** Runs an action after all earlier ones. */
  #exclusively<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#last.then(act);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Writes one record after the other. With `expected`, does nothing if another assignment was recorded meanwhile. */
  #save(next: AssignmentRecord, expected?: AssignmentRecord): Promise<void> {
    const saved = this.#saving.then(async () => {
      if (this.#record !== (expected ?? this.#record)) return;
      await writeJson(this.#roleFile, next);
      this.#record = next;
    });
    this.#saving = saved.catch(() => undefined);
    return saved;
  }
}
