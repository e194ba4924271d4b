import {
  AgentError,
  type Assignment,
  discardData,
  type EngineOptions,
  type EngineRole,
  type FailoverOrder,
  type MiddlewareEngine,
  type Outcome,
  readParameters,
  type ReloadOutcome,
  type StopOptions,
} from "@keelson/middleware-agent";
import { hostOf, infoOf, roleOf } from "./roles/assignment-record.ts";
import { PostgresSnapshots } from "./backup/postgres-snapshots.ts";
import { Follower } from "./roles/follower.ts";
import { SynchronousNames } from "./roles/synchronous-quorum.ts";
import { isConnectionRefused } from "./server/postgres-client.ts";
import { LogArchive } from "./log/log-archive.ts";
import type { PeerAccess } from "./server/peer-connection.ts";
import { PostgresCredentials } from "./users/postgres-credentials.ts";
import { MetricsReader } from "./metrics/read-metrics.ts";
import { PostgresParameters } from "./server/postgres-parameters.ts";
import { PostgresServer } from "./server/postgres-server.ts";
import { endRecovery, restartAsPrimary } from "./roles/promotion.ts";
import { Replacement } from "./data/replacement.ts";
import { ReplicaWatch } from "./roles/replica-watch.ts";
import { dropSlotAt } from "./roles/replication-slot.ts";
import { RoleStore } from "./roles/role-store.ts";
import { isStreamingFrom, observeState, readState, type ServerState } from "./server/server-state.ts";
import { Sequence } from "./sequence.ts";
import { MajorUpgrade } from "./upgrade/major-upgrade.ts";
import { outcomeWithout, switchOver } from "./roles/switchover.ts";
import { prepareElection, prepareTakeover, type TakingOver } from "./roles/takeover.ts";

const isolated = { isStandby: true, isOpen: false } as const;
const fenceTimeoutMs = 1_500;

/**
 * Drives one PostgreSQL server.
 *
 * A server that was (re)started is a standby without an upstream that accepts only its agent: it neither serves clients nor writes a byte
 * to its log, so it can follow another primary afterwards. A primary that is fenced is restarted in that state, which holds against
 * connected clients too.
 */
export class PostgresEngine implements MiddlewareEngine {
  readonly credentials: PostgresCredentials;
  readonly log: LogArchive;
  readonly snapshots: PostgresSnapshots;
  readonly upgrades: MajorUpgrade;
  readonly ended: Promise<string>;
  readonly metrics: MetricsReader["read"];
  readonly #options: EngineOptions & PeerAccess;
  readonly #server: PostgresServer;
  readonly #parameters: PostgresParameters;
  readonly #follower: Follower;
  readonly #roles: RoleStore;
  #version = "";
  /** Whether its role was assigned since it was started. */
  #isAdmitted = false;
  #isFenced = false;
  #isStopping = false;
  readonly #replacement: Replacement;
  /** Actions that start or stop the server, and takeovers: a repeated one must not be refused while the previous one promotes. */
  readonly #actions = new Sequence();
  readonly #takeovers = new Sequence();
  readonly #watch: ReplicaWatch;
  #position = 0;
  readonly #taking: TakingOver;

  constructor(options: EngineOptions) {
    this.#server = new PostgresServer(options);
    this.credentials = new PostgresCredentials({
      engine: options,
      server: () => this.#server,
      useLogin: (login) => this.#actions.run(() => this.#server.setLogin(login)),
    });
    this.#options = { ...options, logins: this.credentials.logins };
    this.ended = this.#server.ended;
    this.#parameters = new PostgresParameters(this.#server);
    const [engine, server] = [this.#options, this.#server];
    const synchronous = new SynchronousNames();
    this.#taking = { ...this.#options, server, synchronous, actions: this.#actions };
    this.metrics = new MetricsReader(server.connection.address, options.clock).read;
    this.#follower = new Follower({ engine, server, exclusively: (act) => this.#actions.run(act) });
    this.#roles = new RoleStore(options.dataDir);
    this.#replacement = new Replacement(options.clock);
    this.#watch = new ReplicaWatch(options.clock, () => this.role());
    this.log = new LogArchive({ engine, server, synchronous, primaryHost: () => this.#primaryHost() });
    this.upgrades = new MajorUpgrade({ engine, server, exclusively: (act) => this.#actions.run(act) });
    this.snapshots = new PostgresSnapshots({
      ...{ engine, server },
      isAdmitted: () => this.#isAdmitted,
      obstacle: () => this.#obstacleOfLoad(),
      install: (folder) => this.#actions.run(() => this.#replaceData(folder)),
    });
  }

  async start(): Promise<void> {
    const { configFile, dataDir, rebuild, log } = this.#options;
    const { parameters, hash } = await readParameters(configFile);
    this.#parameters.load(parameters, hash);
    await this.#server.prepare(parameters);
    await discardData(dataDir, rebuild, log);
    await this.#server.prepare(parameters);
    this.#version = await this.#server.version();
    await Promise.all([this.#roles.load(), this.credentials.load()]);
    await this.log.load();
    await this.upgrades.load();
    if (this.#server.hasUsableData) await this.#server.start(isolated);
  }

  async role(): Promise<EngineRole> {
    if (this.#isStopping) return { role: "stopped", info: {} };
    const { host } = this.#options;
    const record = this.#roles.record;
    const state = await observeState(this.#server, this.#replacement);
    this.#position = state?.position ?? Math.max(this.#position, this.upgrades.position);
    await this.#recordPromotion(state);
    const isReplica = this.#isAdmitted && record?.role === "replica";
    const isStreaming = isReplica && !this.#follower.isWorking && isStreamingFrom(state, record.primaryHost);
    const isInSync = isReplica ? isStreaming : state?.isStandby === false && this.#isAdmitted;
    if (isReplica && isInSync && record.isPending === true) await this.#roles.save({ ...record, isPending: false }, record);
    if (isReplica && this.#watch.isDue(isInSync || this.#follower.isWorking)) this.#follower.follow(record.primaryHost);
    return {
      role: this.#roleName(state),
      info: {
        configHash: this.#parameters.hash,
        version: this.#version,
        isInSync: String(isInSync),
        primaryHost: isReplica ? record.primaryHost : host,
        ...infoOf(state, this.#roles.record, this.#server.hasData ? this.#position : 0),
        ...this.log.info,
        ...this.upgrades.info,
        ...this.credentials.info,
      },
    };
  }

  async assign(assignment: Assignment): Promise<Outcome> {
    const { role, primaryHost, epoch } = assignment;
    const record = this.#roles.record;
    if (record !== undefined && epoch < record.epoch)
      return { ok: false, error: `epoch ${epoch} is older than ${record.epoch}` };
    if (role === "replica") {
      // Saved first, so that a restart in between continues with the new role.
      const isPending = record?.role === "primary" || record?.isPending === true;
      await this.#roles.save({ ...assignment, isPending });
      if (this.#isAdmitted === false) this.#options.log.info({ primary: primaryHost }, "becoming a replica");
      [this.#isAdmitted, this.#isFenced] = [true, false];
      this.#follower.follow(primaryHost, !isPending);
      this.#watch.start();
      return { ok: true };
    }
    await this.#follower.cancel();
    await this.#actions.run(() => this.#becomePrimary({ role, primaryHost: this.#options.host, epoch }));
    return { ok: true };
  }

  reload(wanted: Readonly<Record<string, string>>, hash: string): Promise<ReloadOutcome> {
    return this.#actions.run(() => this.#parameters.reload(wanted, hash));
  }

  failover(order: FailoverOrder): Promise<Outcome> {
    const isTakeover = order.target === this.#options.host;
    return isTakeover ? this.#takeovers.run(() => this.#takeOver(order)) : this.#actions.run(() => this.#handOver(order));
  }

  async fenceWrites(): Promise<void> {
    await this.#follower.cancel();
    await this.#actions.run(async () => {
      this.#isFenced = true;
      if (!this.#server.hasUsableData || (this.#server.isRunning && (await readState(this.#server.connection)).isStandby))
        return;
      await this.#server.stop(fenceTimeoutMs);
      await this.#server.start(isolated);
    });
  }

  async isFenced(): Promise<boolean> {
    // A primary keeps its lease while its data is replaced. If the lease is lost in the meantime, the guard ends the server.
    if (this.#replacement.isOnTime) return false;
    return !this.#server.isRunning || (await readState(this.#server.connection)).isStandby;
  }

  async promote(epoch: number, elected?: readonly string[]): Promise<void> {
    const record = this.#roles.record;
    if (elected !== undefined) await this.#follower.cancel().then(() => prepareElection(elected, record, this.#taking));
    await this.#promote(epoch, record);
  }

  /** Rejects if the record is not `expected` any more. */
  async #promote(epoch: number, expected: Assignment | undefined): Promise<void> {
    await this.#follower.cancel();
    await this.#actions.run(() => this.#becomePrimary({ role: "primary", primaryHost: this.#options.host, epoch }, expected));
  }

  reloadCertificates = (): Promise<void> => this.#actions.run(() => this.#server.reloadCertificates());
  isDown = (host: string): Promise<boolean> => isConnectionRefused(host, this.#options.port, 1_000);
  guard = (timeoutMs: number | undefined): void => this.#server.guard(timeoutMs);

  async stop({ timeoutMs, force, isRemoved }: StopOptions): Promise<Outcome> {
    this.#isStopping = true;
    this.#watch.stop();
    this.log.end();
    this.#server.interrupt();
    await Promise.all([this.#follower.cancel(), this.upgrades.end()]);
    const outcome = await this.#actions.run(() => this.#server.end(timeoutMs, force));
    if (isRemoved === true) await dropSlotAt(this.#roles.record, this.#options);
    return outcome;
  }

  /** The primary that this server follows, or its own address; undefined without a role. */
  #primaryHost(): string | undefined {
    return this.#isAdmitted && !this.#replacement.isUnderWay ? hostOf(this.#roles.record, this.#options.host) : undefined;
  }

  #roleName(state: ServerState | undefined): EngineRole["role"] {
    const isPrimary = state?.isStandby === false || this.#isFenced || this.#replacement.isOnTime;
    return roleOf(this.#isAdmitted ? this.#roles.record : undefined, { hasData: this.#server.hasData, isPrimary });
  }

  /** The agent of the previous primary promotes this server. */
  async #recordPromotion(state: ServerState | undefined): Promise<void> {
    const record = this.#roles.record;
    if (state?.isStandby !== false || record?.role !== "replica" || !this.#isAdmitted || this.#follower.isWorking) return;
    await this.#roles.save({ role: "primary", primaryHost: this.#options.host, epoch: record.epoch + 1 }, record);
    void this.#actions
      .run(() => restartAsPrimary(this.#server, true))
      .catch((error: unknown) => this.#options.log.warn({ err: error }, "could not lower settings"));
  }

  /** With `expected`, rejects if another role was assigned in the meantime. */
  async #becomePrimary(assignment: Assignment, expected?: Assignment): Promise<void> {
    const server = this.#server;
    if (server.isIncomplete) throw new AgentError("ProgramExited", "the data is incomplete: its rewind was interrupted");
    this.upgrades.requireUpgraded();
    await this.#roles.save(assignment, expected);
    this.#roles.require(assignment);
    if (!server.hasData) await server.initialize();
    if (!server.isRunning) await server.start({ isStandby: false, isOpen: false });
    if ((await readState(server.connection)).isStandby) await endRecovery(server);
    else if (this.#isAdmitted && server.isOpen) return;
    await this.credentials.apply();
    this.#roles.require(assignment);
    await server.change({ isStandby: false, isOpen: true });
    [this.#isAdmitted, this.#isFenced] = [true, false];
    this.upgrades.analyze();
  }

  async #obstacleOfLoad(): Promise<string | undefined> {
    if (this.#roles.record?.role !== "primary" || !this.#isAdmitted) return "this server is not the primary";
    return (await this.isFenced()) ? "this server is fenced" : undefined;
  }

  /** The old data is kept until the new one is in its place. */
  async #replaceData(folder: string): Promise<string | undefined> {
    const record = this.#roles.record;
    const obstacle = await this.#obstacleOfLoad();
    if (obstacle !== undefined || record === undefined || this.#isStopping) return obstacle ?? "this server is being stopped";
    await this.#replacement.exchange(this.#server, folder, () => this.#becomePrimary(record, record));
    return undefined;
  }

  async #handOver(order: FailoverOrder): Promise<Outcome> {
    const record = this.#roles.record;
    const known = outcomeWithout(order, this.#isAdmitted ? record : undefined);
    if (known !== undefined || record === undefined) return known ?? { ok: false, error: "this server has no role" };
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
      if (result.mayResume) await this.#becomePrimary(record, record);
      return { ok: false, error: result.error };
    }
    // Its successor was promoted with all of its data. It may lack the checkpoint of the shutdown: this server is then rewound.
    await this.#roles.save({ role: "replica", primaryHost: order.target, epoch: order.epoch });
    this.#follower.follow(this.#roles.record?.primaryHost ?? order.target);
    this.#watch.start();
    return { ok: true };
  }

  async #takeOver(order: FailoverOrder): Promise<Outcome> {
    const record = this.#roles.record;
    if (record === undefined || !this.#isAdmitted) return { ok: false, error: "this server was restarted and has no role" };
    if (order.epoch < record.epoch) return { ok: false, error: `epoch ${order.epoch} is older than ${record.epoch}` };
    const prepared = await prepareTakeover(order, record, this.#taking);
    const permission = prepared.ok ? ((await order.beforePromotion?.()) ?? { ok: true, epoch: order.epoch }) : prepared;
    if (!permission.ok) return permission;
    await this.#promote(permission.epoch, record);
    this.#options.log.warn({ primary: record.primaryHost, epoch: permission.epoch }, "promoted after the primary failed");
    return { ok: true };
  }
}
