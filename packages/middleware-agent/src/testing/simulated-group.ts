import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import type { EngineRole, FailoverOrder, FencedEngine, Outcome } from "../engine.ts";
import type { Peers } from "../quorum/peers.ts";
import { QuorumAgent } from "../quorum/quorum-agent.ts";
import { QuorumEngine } from "../quorum/quorum-engine.ts";
import type { StoredQuorum } from "../quorum/quorum-store.ts";

/** A program that replicates like Redis. */
class SimulatedProgram implements FencedEngine {
  readonly ended = new Promise<string>(() => undefined);
  role_: "primary" | "replica" | "recovering" = "replica";
  primaryHost = "host-0";
  epoch = 1;
  offset = 100;
  isUp = true;
  /** Whether it does not respond, as while it is frozen. */
  isSilent = false;
  isFenced_ = false;
  guardAt: number | undefined;
  readonly #host: string;
  readonly #group: SimulatedGroup;

  constructor(host: string, group: SimulatedGroup) {
    this.#host = host;
    this.#group = group;
  }

  get isWritable(): boolean {
    return this.isUp && this.role_ === "primary" && !this.isFenced_;
  }

  start = (): Promise<void> => Promise.resolve();

  async role(): Promise<EngineRole> {
    if (this.isSilent) return new Promise(() => undefined);
    if (!this.isUp) throw new Error("the program does not respond");
    const primary = this.#group.programAt(this.primaryHost);
    const isInSync = this.role_ !== "replica" || (primary?.isUp === true && !this.#group.isCut(this.#host, this.primaryHost));
    const info = { primaryHost: this.primaryHost, offset: String(this.offset), epoch: String(this.epoch) };
    return { role: this.role_, info: { ...info, isInSync: String(isInSync) } };
  }

  async assign({
    role,
    primaryHost,
    epoch,
  }: {
    role: "primary" | "replica";
    primaryHost: string;
    epoch: number;
  }): Promise<Outcome> {
    if (epoch < this.epoch) return { ok: false, error: "old epoch" };
    Object.assign(this, { role_: role, primaryHost: role === "primary" ? this.#host : primaryHost, epoch, isFenced_: false });
    return { ok: true };
  }

  reload = (): Promise<Outcome> => Promise.resolve({ ok: true });
  stop = (): Promise<Outcome> => Promise.resolve({ ok: true });

  async failover(order: FailoverOrder): Promise<Outcome> {
    const isTakeover = order.target === this.#host;
    const other = this.#group.programAt(isTakeover ? this.primaryHost : order.target);
    const fenced = isTakeover ? other : this;
    if (fenced?.isUp === true) fenced.isFenced_ = true;
    const permission = await order.beforePromotion?.();
    if (permission?.ok === false) return permission;
    if (isTakeover) await this.promote(permission?.epoch ?? order.epoch);
    else Object.assign(this, { role_: "replica", primaryHost: order.target, isFenced_: false });
    return { ok: true };
  }

  async fenceWrites(): Promise<void> {
    if (!this.isUp) throw new Error("the program does not respond");
    this.isFenced_ = true;
  }

  isFenced = (): Promise<boolean> => Promise.resolve(this.isFenced_);

  async promote(epoch: number): Promise<void> {
    Object.assign(this, { role_: "primary", primaryHost: this.#host, epoch, isFenced_: false });
  }

  isDown = (host: string): Promise<boolean> =>
    Promise.resolve(!this.#group.isCut(this.#host, host) && this.#group.programAt(host)?.isUp === false);

  guard(timeoutMs: number | undefined): void {
    this.guardAt = timeoutMs === undefined ? undefined : this.#group.clock.monotonic() + timeoutMs;
  }
}

/** A Pod of a {@link SimulatedGroup}. */
export interface SimulatedMember {
  readonly name: string;
  readonly host: string;
  readonly program: SimulatedProgram;
  readonly engine: QuorumEngine;
  quorum: QuorumAgent;
  stored: StoredQuorum | undefined;
  isAgentUp: boolean;
}

/** The agents of a Group in virtual time, with simulated programs and a network that can be cut. */
export class SimulatedGroup {
  readonly clock: VirtualClock = createVirtualClock();
  readonly members: readonly SimulatedMember[];
  readonly #cuts = new Set<string>();

  constructor(size: number) {
    this.members = Array.from({ length: size }, (_, ordinal) => this.#createMember(ordinal));
    const [primary] = this.members;
    if (primary !== undefined) primary.program.role_ = "primary";
  }

  /** Starts the agents and makes all Pods members, of which the first is the primary. Then time advances. */
  async start(durationMs = 12_000): Promise<void> {
    const hosts = Object.fromEntries(this.members.map(({ name, host }) => [name, host]));
    for (const { quorum } of this.members) await quorum.start();
    for (const { quorum } of [...this.members].reverse()) await quorum.setMembers({ key: "1", hosts, maxLagBytes: 0 });
    await this.run(durationMs);
  }

  /** Advances time. Programs whose guard fires are killed. */
  async run(durationMs: number): Promise<void> {
    for (let at = 0; at < durationMs; at += 50) {
      await this.clock.advance(50);
      for (const { program } of this.members)
        if (program.guardAt !== undefined && this.clock.monotonic() >= program.guardAt) program.isUp = false;
      const writable = this.writable();
      if (writable.length > 1) throw new Error(`two writable primaries: ${writable.join()}`);
    }
  }

  writable(): readonly string[] {
    return this.members.filter(({ program }) => program.isWritable).map(({ name }) => name);
  }

  member(ordinal: number): SimulatedMember {
    const member = this.members[ordinal];
    if (member === undefined) throw new Error(`no member ${ordinal}`);
    return member;
  }

  /** Cuts a Pod off from all others, or connects it again. */
  isolate(ordinal: number, isCut = true): void {
    const { host } = this.member(ordinal);
    if (isCut) this.#cuts.add(host);
    else this.#cuts.delete(host);
  }

  isCut(a: string, b: string): boolean {
    return a !== b && (this.#cuts.has(a) || this.#cuts.has(b));
  }

  programAt(host: string): SimulatedProgram | undefined {
    return this.members.find((each) => each.host === host)?.program;
  }

  stop(): void {
    for (const { quorum } of this.members) quorum.stop();
  }

  #createMember(ordinal: number): SimulatedMember {
    const [name, host] = [`p-${ordinal}`, `host-${ordinal}`];
    const program = new SimulatedProgram(host, this);
    const peers: Peers = {
      request: async (to, request) => {
        const peer = this.members.find((each) => each.host === to);
        return peer === undefined || !peer.isAgentUp || this.isCut(host, to) ? undefined : peer.quorum.answer(request);
      },
      close: () => undefined,
    };
    const member: { stored: StoredQuorum | undefined } = { stored: undefined };
    const quorum = new QuorumAgent({
      ...{ self: name, host, engine: program, peers, clock: this.clock, log: silentLogger },
      random: () => 0,
      store: {
        read: () => Promise.resolve(member.stored),
        write: (value) => {
          member.stored = value;
          return Promise.resolve();
        },
      },
      hasController: () => false,
    });
    return Object.assign(member, {
      name,
      host,
      program,
      quorum,
      engine: new QuorumEngine(program, quorum, host),
      isAgentUp: true,
    });
  }
}
