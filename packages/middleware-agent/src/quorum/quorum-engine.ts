import type {
  Assignment,
  Engine,
  EngineRole,
  FailoverOrder,
  FencedEngine,
  Outcome,
  ReloadOutcome,
  StopOptions,
} from "../engine.ts";
import type { Acquired } from "./acquire-lease.ts";
import type { QuorumAgent } from "./quorum-agent.ts";

/** An engine that is a primary only while its Pod has the lease of a majority. Without members it behaves like the engine inside. */
export class QuorumEngine implements Engine {
  readonly #engine: FencedEngine;
  readonly #quorum: QuorumAgent;
  readonly #host: string;
  readonly #certificates: () => string | undefined;

  /** `certificates` identifies those in force. */
  constructor(
    engine: FencedEngine,
    quorum: QuorumAgent,
    host: string,
    certificates: () => string | undefined = () => undefined,
  ) {
    this.#certificates = certificates;
    this.#engine = engine;
    this.#quorum = quorum;
    this.#host = host;
  }

  get ended(): Promise<string> {
    return this.#engine.ended;
  }

  start(): Promise<void> {
    return this.#engine.start();
  }

  /** A primary without a lease is reported as recovering: it rejects writes until the role is assigned again. */
  async role(): Promise<EngineRole> {
    const { role, info } = await this.#engine.role();
    const certificates = this.#certificates();
    const extra = {
      ...(certificates === undefined ? {} : { certificates }),
      members: this.#quorum.isForming ? "" : this.#quorum.members.key,
      epoch: String(Math.max(Number(info["epoch"] ?? 0), this.#quorum.epoch)),
    };
    const isDeposed = role === "primary" && !this.#quorum.mayWrite();
    return {
      role: isDeposed ? "recovering" : role,
      info: role === "stopped" ? info : { ...info, ...extra, ...(isDeposed ? { isInSync: "false" } : {}) },
    };
  }

  async assign(assignment: Assignment): Promise<Outcome> {
    if (assignment.role === "replica") {
      const outcome = await this.#engine.assign(assignment);
      if (outcome.ok) await this.#quorum.giveUp();
      return outcome;
    }
    const permission = await this.#quorum.acquire(assignment.epoch);
    if (!permission.ok) return permission;
    const outcome = await this.#engine.assign({ ...assignment, epoch: permission.epoch });
    if (outcome.ok) this.#quorum.recordPromotion();
    return outcome;
  }

  reload(parameters: Readonly<Record<string, string>>, hash: string): Promise<ReloadOutcome> {
    return this.#engine.reload(parameters, hash);
  }

  async failover(order: FailoverOrder): Promise<Outcome> {
    if (!this.#quorum.isActive) return this.#engine.failover(order);
    if (order.target === this.#host) {
      // Before the primary is fenced: a lease that it gets afterwards has a newer epoch.
      const over = this.#quorum.primaryToFence;
      const beforePromotion = (): Promise<Acquired> => this.#quorum.acquire(order.epoch, over);
      const outcome = await this.#engine.failover({ ...order, beforePromotion });
      if (outcome.ok) this.#quorum.recordPromotion();
      return outcome;
    }
    const beforePromotion = async (): Promise<Acquired> => {
      await this.#quorum.handOver(order.target);
      return { ok: true, epoch: order.epoch, promotesItself: true };
    };
    return this.#quorum.whileBusy(() =>
      this.#engine.failover({ ...order, beforePromotion, mayResume: () => this.#quorum.mayWrite() }),
    );
  }

  async stop(options: StopOptions): Promise<Outcome> {
    const outcome = await this.#engine.stop(options);
    if (outcome.ok) await this.#quorum.giveUp();
    return outcome;
  }
}
