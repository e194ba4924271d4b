import type { EngineRole, Outcome } from "../engine.ts";
import { type Acquired, acquireLease } from "./acquire-lease.ts";
import { standDelayMs } from "./candidacy.ts";
import { dutyOf, type ProgramView } from "./duty.ts";
import type { QuorumOptions } from "./quorum-options.ts";
import { inTime } from "./in-time.ts";
import { TurnTimer } from "./turn-timer.ts";
import { isForming } from "./formation.ts";
import { followLeader } from "./follow-leader.ts";
import { viewProgram } from "./view-program.ts";
import { epochOf, holderAt, type LeaseAnswer, leaseFrom, mayWrite, type Promised, promoted, promotedHolder } from "./lease.ts";
import { leaseTimes } from "./lease-times.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import type { Members } from "./members.ts";
import type { PeerRequest } from "./peers.ts";

/** Intervals between two turns: while the Group is well, and while it has no primary. */
const [settledMs, unsettledMs] = [500, 150];
/** While a controller is connected it leads a failover, and the agents wait for it this long. */
const deferenceMs = 3_000;
/** Shorter than the time in which agents expect an answer. */
const lookTimeoutMs = 400;
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

  /** Whether this Pod is the primary of a Group whose agents do not elect a primary yet. */
  get isForming(): boolean {
    return isForming(this.#keeper.state);
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

  /**
   * Sets the members. The primary of a Group that had none continues to accept writes, and succeeds once it has its first lease: from then
   * on the agents replace it if it fails.
   */
  async setMembers(members: Members): Promise<Outcome> {
    if (members.key !== this.members.key) {
      const { engine } = this.#options;
      const { role, info } = await engine.role();
      await this.#keeper.replaceMembers(members, role === "primary" ? Number(info["epoch"] ?? 0) : undefined);
      if (!this.isActive) engine.guard(undefined);
    }
    if (this.isForming) await this.#form();
    this.#schedule(0);
    return this.isForming ? { ok: false, error: "no majority of the agents has granted the first lease yet" } : { ok: true };
  }

  /** Answers the request of an agent. */
  async answer(request: PeerRequest): Promise<LeaseAnswer> {
    // A candidate is compared with the data of this moment. A program that does not respond must not keep its agent from voting.
    if (request.kind === "stand") await inTime(this.#options.clock, lookTimeoutMs, this.#look());
    const answer = await this.#keeper.answer(request, this.#offset);
    const isNamed = request.kind === "release" && request.successor === this.#options.self;
    if (isNamed && this.#keeper.state.promised?.holder === this.#options.self) {
      const over = { holder: request.from, epoch: request.epoch };
      void this.#acceptSuccession(over).catch((error: unknown) => this.#warn(error));
    }
    return answer;
  }

  /** Collects the leases for a Pod that the controller chose. `over`: the previous holder accepts no more writes. */
  async acquire(minEpoch: number, over?: Promised): Promise<Acquired> {
    const keeper = this.#keeper;
    const { tenure } = keeper.state;
    if (!this.isActive || (tenure?.isPromoted === true && this.mayWrite()))
      return { ok: true, epoch: Math.max(minEpoch, tenure?.epoch ?? 0) };
    return this.whileBusy(async () => {
      const acquired = await acquireLease(keeper, this.#options, { minEpoch, over, ask: () => this.#ask("stand") });
      if (acquired.ok) this.#guard();
      return acquired;
    });
  }

  /** Performs a planned switchover, or collects leases, without stepping down in the meantime. */
  async whileBusy<T>(act: () => Promise<T>): Promise<T> {
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
    this.#options.log.warn({ err: error }, "could not maintain the lease; retrying");
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
    if (!this.#isBusy && (await followLeader(keeper, role, this.#options))) return;
    // A planned switchover fences the program while it holds the lease.
    const program = this.#isBusy ? { ...this.#program, isFenced: false } : this.#program;
    const duty = dutyOf(keeper.state, program, keeper.now());
    if (duty !== "stand") this.#standAt = undefined;
    switch (duty) {
      case "form":
        return this.#form();
      case "renew":
        this.#guard();
        if (keeper.sinceAskedMs >= leaseTimes.renewMs - settledMs / 2) this.#askLater(this.isForming ? "form" : "renew");
        return;
      case "repeat":
        keeper.repeatCandidacy();
        return this.#askLater("stand");
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

  /** Looks at the own program. Resolves to undefined if it does not respond. */
  async #look(): Promise<EngineRole | undefined> {
    const { engine, self } = this.#options;
    const holder = promotedHolder(this.#keeper.state)?.holder;
    const host = holder === self ? undefined : this.#keeper.members.hosts[holder ?? ""];
    const { role, program } = await viewProgram(engine, host);
    // The lease of a primary that does not respond runs out, and the guard ends its program.
    this.#program = program ?? { ...this.#program, role: "other", isHolderDown: false };
    return role;
  }

  async #standInTime(isHolderDown: boolean): Promise<void> {
    const { hasController, random, self } = this.#options;
    const { state } = this.#keeper;
    const now = this.#keeper.now();
    const isSuccessor = holderAt(state, now) === self;
    // A lease that has expired gave the controller its time.
    const isExpired = state.grant !== undefined && !isHolderDown;
    const delayMs = isSuccessor ? 0 : standDelayMs(state, random()) + (hasController() && !isExpired ? deferenceMs : 0);
    this.#standAt ??= now + delayMs;
    if (now < this.#standAt) return;
    this.#standAt = undefined;
    const over = isHolderDown ? promotedHolder(state) : undefined;
    if (!(await this.#keeper.isElectable(over, this.#program.offset, this.#offset))) return;
    if (this.#keeper.state.tenure === undefined) this.#stand(over, false);
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

  /** Gets the first lease of the Group. */
  async #form(): Promise<void> {
    await this.#keeper.prepareFormation();
    if (leaseFrom(this.#keeper.state) === undefined) return;
    this.#guard();
    await this.#ask("form");
  }

  /** Lets the guard end the program when the lease runs out. */
  #guard(): void {
    const at = leaseFrom(this.#keeper.state);
    if (at !== undefined) this.#options.engine.guard(at + leaseTimes.guardMs - this.#keeper.now());
  }

  #ask(kind: "form" | "stand" | "renew"): Promise<readonly string[]> {
    // A majority may have answered long before the last agent does.
    const onAnswer = (): void => {
      if (kind === "stand" && !this.#isBusy) this.#schedule(0);
    };
    return this.#keeper.ask(kind, this.#program.offset, this.#offset, onAnswer);
  }

  #askLater(kind: "form" | "stand" | "renew"): void {
    const report = (reasons: readonly string[]): void => {
      if (reasons.length > 0) this.#options.log.info({ kind, reasons }, "some agents did not grant the lease");
    };
    void this.#ask(kind).then(report, (error: unknown) => this.#warn(error));
  }
}
