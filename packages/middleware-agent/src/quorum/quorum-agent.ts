import type { Logger } from "@keelson/controller";
import type { EngineRole, FencedEngine, Outcome } from "../engine.ts";
import { type Acquired, acquireLease } from "./acquire-lease.ts";
import { dutyOf, type ProgramView } from "./duty.ts";
import { TurnTimer } from "./turn-timer.ts";
import { viewProgram } from "./view-program.ts";
import {
  epochOf,
  holderAt,
  type LeaseAnswer,
  leaseTimes,
  mayWrite,
  type Promised,
  promoted,
  promotedHolder,
  renewedAt,
  standDelayMs,
} from "./lease.ts";
import { LeaseKeeper, type LeaseKeeperOptions } from "./lease-keeper.ts";
import type { Members } from "./members.ts";
import type { PeerRequest } from "./peers.ts";

/** Intervals between two turns: while the Group is well, and while it has no primary. */
const [settledMs, unsettledMs] = [500, 150];
/** While a controller is connected it leads a failover, and the agents wait for it this long. */
const deferenceMs = 3_000;
/** Options of {@link QuorumAgent}. */
export interface QuorumOptions extends LeaseKeeperOptions {
  readonly engine: FencedEngine;
  readonly random: () => number;
  readonly log: Logger;
  /** Whether a controller is connected. */
  readonly hasController: () => boolean;
}

/**
 * Holds the lease of a Pod: renews it while the Pod is the primary, fences the program if the lease cannot be renewed, stands for
 * election if the primary has failed, and follows the Pod that was elected. All decisions are in {@link dutyOf} and `lease.ts`.
 */
export class QuorumAgent {
  readonly #options: QuorumOptions;
  readonly #keeper: LeaseKeeper;
  #program: ProgramView = { role: "other", offset: 0, isFenced: false, isHolderDown: false };
  #isBusy = false;
  #standAt: number | undefined;
  readonly #turns: TurnTimer;

  constructor(options: QuorumOptions) {
    this.#options = options;
    this.#keeper = new LeaseKeeper(options);
    this.#turns = new TurnTimer(options.clock, () => this.#takeTurn());
  }

  /** Loads what an earlier agent promised, and starts to look after the lease. */
  async start(): Promise<void> {
    await this.#keeper.load();
    this.#schedule(unsettledMs);
  }

  get members(): Members {
    return this.#keeper.members;
  }

  get isActive(): boolean {
    return this.#keeper.isActive;
  }

  /** Highest epoch that is known here. */
  get epoch(): number {
    return epochOf(this.#keeper.state);
  }

  /** Name and address of the primary that has the lease. */
  get leader(): LeaseKeeper["leader"] {
    return this.#keeper.leader;
  }

  /** What proves to other agents that the current primary accepts no writes, once it is fenced or down. */
  get primaryToFence(): Promised | undefined {
    return promotedHolder(this.#keeper.state);
  }

  /** Whether a primary may accept writes. */
  mayWrite(): boolean {
    return mayWrite(this.#keeper.state, this.#keeper.now());
  }

  /** Sets the members. The primary of a Group that had none continues to accept writes. */
  async setMembers(members: Members): Promise<void> {
    if (members.key === this.members.key) return;
    const { engine } = this.#options;
    const { role, info } = await engine.role();
    await this.#keeper.replaceMembers(members, role === "primary" ? Number(info["epoch"] ?? 0) : undefined);
    if (!this.isActive) engine.guard(undefined);
    this.#schedule(0);
  }

  /** Answers the request of an agent. */
  async answer(request: PeerRequest): Promise<LeaseAnswer> {
    // A candidate is compared with the data of this moment.
    if (request.kind === "stand") await this.#look();
    const answer = await this.#keeper.answer(request, this.#offset);
    const isNamed = request.kind === "release" && request.successor === this.#options.self;
    if (isNamed && this.#keeper.state.promised?.holder === this.#options.self) {
      const over = { holder: request.from, epoch: request.epoch };
      void this.#acceptSuccession(over).catch((error: unknown) => this.#warn(error));
    }
    return answer;
  }

  /** Collects the leases for a Pod that the controller chose. `over`: the previous holder accepts no writes any more. */
  async acquire(minEpoch: number, over?: Promised): Promise<Acquired> {
    const keeper = this.#keeper;
    const { tenure } = keeper.state;
    if (!this.isActive || (tenure?.isPromoted === true && this.mayWrite()))
      return { ok: true, epoch: Math.max(minEpoch, tenure?.epoch ?? 0) };
    this.#isBusy = true;
    try {
      const acquired = await acquireLease(keeper, this.#options, { minEpoch, over, ask: () => this.#ask("stand") });
      if (acquired.ok) this.#guard();
      return acquired;
    } finally {
      this.#isBusy = false;
    }
  }

  /** Performs a planned switchover without stepping down meanwhile. */
  async whileHandingOver(act: () => Promise<Outcome>): Promise<Outcome> {
    this.#isBusy = true;
    try {
      return await act();
    } finally {
      this.#isBusy = false;
    }
  }

  /** Passes the lease to a Pod. The own program is fenced and must stay so. */
  async handOver(successorHost: string): Promise<void> {
    const [successor] = Object.entries(this.#keeper.members.hosts).find(([, host]) => host === successorHost) ?? [];
    this.#options.engine.guard(undefined);
    await this.#keeper.release(successor);
  }

  /** Records a promotion that {@link acquire} permitted. */
  recordPromotion(): void {
    this.#keeper.state = promoted(this.#keeper.state);
    this.#guard();
    this.#schedule(0);
  }

  /** Gives the lease up after the program has ended or was demoted. */
  async giveUp(): Promise<void> {
    if (this.#keeper.state.tenure === undefined) return;
    this.#options.engine.guard(undefined);
    await this.#keeper.release();
  }

  stop(): void {
    this.#turns.stop();
    this.#options.peers.close();
  }

  /** Undefined if the own program has no role. */
  get #offset(): number | undefined {
    return this.#program.role === "other" ? undefined : this.#program.offset;
  }

  #warn(error: unknown): void {
    this.#options.log.warn({ err: error }, "could not look after the lease; retrying");
  }

  #schedule(delayMs: number): void {
    if (this.isActive) this.#turns.schedule(delayMs);
  }

  /** Takes a turn. Resolves to the time until the next one. */
  async #takeTurn(): Promise<number | undefined> {
    const isHolding = (): boolean => this.#keeper.state.tenure?.isPromoted === true;
    try {
      if (!this.#isBusy || isHolding()) await this.#turn();
    } catch (error) {
      this.#warn(error);
    }
    if (!this.isActive) return undefined;
    return isHolding() || this.leader !== undefined ? settledMs : unsettledMs;
  }

  async #turn(): Promise<void> {
    const keeper = this.#keeper;
    const role = await this.#look();
    keeper.announce();
    if (await this.#follow(role)) return;
    // A planned switchover fences the program while it holds the lease.
    const program = this.#isBusy ? { ...this.#program, isFenced: false } : this.#program;
    const duty = dutyOf(keeper.state, program, keeper.now());
    if (duty !== "stand") this.#standAt = undefined;
    switch (duty) {
      case "renew":
        this.#guard();
        if (keeper.sinceAskedMs >= leaseTimes.renewMs - settledMs / 2) this.#askLater("renew");
        return;
      case "step-down":
        this.#options.log.warn({ epoch: keeper.state.tenure?.epoch }, "lost the lease: rejecting writes");
        await this.#options.engine.fenceWrites();
        return this.giveUp();
      case "give-up":
        return this.giveUp();
      case "promote":
        return this.#promote();
      case "stand":
        return this.#standInTime(program.isHolderDown);
      case "nothing":
    }
  }

  /** Looks at the own program. Resolves to undefined if it does not answer. */
  async #look(): Promise<EngineRole | undefined> {
    const { engine, self } = this.#options;
    const holder = promotedHolder(this.#keeper.state)?.holder;
    const host = holder === self ? undefined : this.#keeper.members.hosts[holder ?? ""];
    const { role, program } = await viewProgram(engine, host);
    // The lease of a primary that does not answer runs out, and the guard ends its program.
    this.#program = program ?? { ...this.#program, role: "other", isHolderDown: false };
    return role;
  }

  /** Follows the Pod that was elected. */
  async #follow(role: EngineRole | undefined): Promise<boolean> {
    const { leader, state } = this.#keeper;
    const { promised, tenure } = state;
    if (role === undefined || leader === undefined || promised?.holder !== leader.name) return false;
    if (leader.name === this.#options.self || tenure !== undefined || this.#isBusy || role.role === "stopped") return false;
    if (role.role === "replica" && role.info["primaryHost"] === leader.host) return false;
    const assignment = { role: "replica", primaryHost: leader.host, epoch: promised.epoch } as const;
    const outcome = await this.#options.engine.assign(assignment);
    if (!outcome.ok) this.#options.log.warn({ leader, error: outcome.error }, "could not follow the primary; retrying");
    else this.#options.log.info({ leader, epoch: promised.epoch }, "following the primary that holds the lease");
    return outcome.ok;
  }

  async #standInTime(isHolderDown: boolean): Promise<void> {
    const { hasController, random, self } = this.#options;
    const { state } = this.#keeper;
    const now = this.#keeper.now();
    const isSuccessor = holderAt(state, now) === self;
    const delayMs = isSuccessor ? 0 : standDelayMs(state, random()) + (hasController() ? deferenceMs : 0);
    this.#standAt ??= now + delayMs;
    if (now < this.#standAt) return;
    this.#standAt = undefined;
    this.#stand(isHolderDown ? promotedHolder(state) : undefined, false);
  }

  /** The primary passes its lease to this Pod, which may have become a replica a moment ago. */
  async #acceptSuccession(over: Promised): Promise<void> {
    await this.#look();
    if (this.#keeper.state.tenure === undefined && this.#program.role === "replica") this.#stand(over, true);
  }

  #stand(over: Promised | undefined, isAppointed: boolean): void {
    this.#keeper.stand(over, isAppointed);
    this.#options.log.warn(
      { epoch: this.#keeper.state.tenure?.epoch, over: over?.holder },
      "requesting the lease of the primary",
    );
    this.#askLater("stand");
  }

  async #promote(): Promise<void> {
    const { tenure } = this.#keeper.state;
    if (tenure === undefined) return;
    this.#guard();
    const { self, engine } = this.#options;
    const others = Object.entries(this.#keeper.members.hosts).flatMap(([name, host]) => (name === self ? [] : [host]));
    await engine.promote(tenure.epoch, others);
    this.#options.log.warn({ epoch: tenure.epoch }, "elected as the primary");
    this.recordPromotion();
  }

  /** Lets the guard end the program when the lease runs out. */
  #guard(): void {
    const at = renewedAt(this.#keeper.state);
    if (at !== undefined) this.#options.engine.guard(at + leaseTimes.guardMs - this.#keeper.now());
  }

  #ask(kind: "stand" | "renew"): Promise<readonly string[]> {
    // A majority may have answered long before the last agent does.
    const onAnswer = (): void => {
      if (kind === "stand" && !this.#isBusy) this.#schedule(0);
    };
    return this.#keeper.ask(kind, this.#program.offset, this.#offset, onAnswer);
  }

  #askLater(kind: "stand" | "renew"): void {
    void this.#ask(kind)
      .then((reasons) => {
        if (reasons.length > 0) this.#options.log.info({ kind, reasons }, "some agents did not grant their lease");
      })
      .catch((error: unknown) => this.#warn(error));
  }
}
