import type { Clock } from "@keelson/api-machinery/time";
import {
  answerLease,
  epochOf,
  holderAt,
  isRenewal,
  type LeaseAnswer,
  type LeaseRecord,
  type LeaseRequest,
  type LeaseState,
  majorityOf,
  type Promised,
  recordAnswer,
  recordOf,
  resign,
  stand,
  startLease,
} from "./lease.ts";
import { leaseTimes } from "./lease-times.ts";
import { recordPoll, repeatCandidacy } from "./candidacy.ts";
import { isReadyFor, recordReady, startFormation } from "./formation.ts";
import { type Members, noMembers } from "./members.ts";
import type { PeerRequest, Peers } from "./peers.ts";
import type { QuorumStore } from "./quorum-store.ts";

/** Options of {@link LeaseKeeper}. */
export interface LeaseKeeperOptions {
  /** Name and address of the Pod. */
  readonly self: string;
  readonly host: string;
  readonly peers: Peers;
  readonly store: QuorumStore;
  readonly clock: Clock;
}

/** Keeps the state of the lease: persists what it promised, and exchanges requests with the other agents. It touches no program. */
export class LeaseKeeper {
  /** Changed only by the functions of `lease.ts`. */
  state: LeaseState;
  readonly #options: LeaseKeeperOptions;
  #members: Members = noMembers;
  /** Leases granted before this time may be valid without being known here. */
  #quietFrom: number;
  /** The primary that last renewed its lease here. */
  #leader: Promised | undefined;
  /** Proof that the previous primary accepts no writes, sent with every request. It is bound to an epoch, so it stays true. */
  #over: Promised | undefined;
  #isAppointed = false;
  #askedAt = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
    this.#quietFrom = options.clock.monotonic();
    this.state = startLease(options.self, [], this.#quietFrom);
  }

  /** Loads what an earlier agent promised. */
  async load(): Promise<void> {
    const { members, record } = (await this.#options.store.read()) ?? {};
    this.#members = members ?? noMembers;
    this.state = this.#startLease(record);
    this.#learn(this.#options.self, this.#options.host);
  }

  get members(): Members {
    return this.#members;
  }

  get isActive(): boolean {
    return this.state.members.length > 0;
  }

  /** Time since the last request for leases. */
  get sinceAskedMs(): number {
    return this.now() - this.#askedAt;
  }

  /** Name and address of the primary that has the lease. */
  get leader(): { readonly name: string; readonly host: string } | undefined {
    const name = holderAt(this.state, this.now());
    const host = this.#members.hosts[name ?? ""];
    return name === undefined || host === undefined || this.#leader?.holder !== name ? undefined : { name, host };
  }

  now(): number {
    return this.#options.clock.monotonic();
  }

  /** Replaces the members. `primaryEpoch`: the own program is the primary of a Group that had no lease. */
  async replaceMembers(members: Members, primaryEpoch: number | undefined): Promise<void> {
    const wasActive = this.isActive;
    const names = Object.keys(members.hosts);
    this.#members = members;
    if (wasActive && names.length > 0) {
      this.state = { ...this.state, members: names, maxLagBytes: members.maxLagBytes };
    } else {
      if (wasActive) this.#quietFrom = this.now();
      this.state = this.#startLease(undefined);
      if (primaryEpoch !== undefined && names.length > 0) this.state = startFormation(this.state, this.now(), primaryEpoch);
    }
    await this.persist();
  }

  /** Answers a request. `offset`: replication offset of the own program, undefined if it has no role. */
  async answer(request: PeerRequest | LeaseRequest, offset: number | undefined): Promise<LeaseAnswer> {
    if ("host" in request) this.#learn(request.from, request.host);
    if (request.kind === "hello") return { isGranted: isReadyFor(this.state, request.from), epoch: epochOf(this.state) };
    const before = this.state;
    const { state, answer } = answerLease(before, request, offset, this.now());
    this.state = state;
    const { tenure } = before;
    if (tenure !== undefined && state.tenure === undefined) void this.#sendAll(this.#releaseOf(tenure.epoch), () => undefined);
    if (answer.isGranted && isRenewal(request)) this.#leader = { holder: request.from, epoch: request.epoch };
    const isNew = state.promised?.holder !== before.promised?.holder || state.promised?.epoch !== before.promised?.epoch;
    if (isNew) await this.persist();
    else if (state.reported !== before.reported) void this.persist(false).catch(() => undefined);
    return answer;
  }

  /** Becomes a candidate. `isAppointed`: the controller or the previous primary chose this Pod. */
  stand(over: Promised | undefined, isAppointed: boolean, minEpoch = 0): void {
    this.#over = over ?? this.#over;
    this.#isAppointed = isAppointed;
    this.state = stand(this.state, this.now(), minEpoch);
  }

  /** Stands once more with a newer epoch. */
  repeatCandidacy(): void {
    this.state = repeatCandidacy(this.state, this.now());
  }

  /** Asks whether a majority can grant the first lease of the Group, and lets it count if so. */
  async prepareFormation(): Promise<void> {
    const ready: string[] = [];
    await this.#sendAll({ kind: "hello", from: this.#options.self }, (name, { isGranted }) => {
      if (isGranted) ready.push(name);
      this.state = recordReady(this.state, ready, this.now());
    });
  }

  /**
   * Whether a majority would grant this Pod its lease. A candidate without that prospect would only raise the epoch and keep others from
   * being elected. `ownOffset` as for {@link answer}.
   */
  async isElectable(over: Promised | undefined, offset: number, ownOffset: number | undefined): Promise<boolean> {
    const epoch = this.state.seenEpoch + 1;
    const proof = over ?? this.#over;
    const request: LeaseRequest = { from: this.#options.self, epoch, kind: "poll", offset, ...(proof && { over: proof }) };
    const own = await this.answer(request, ownOffset);
    this.state = recordPoll(this.state, own);
    let votes = own.isGranted ? 1 : 0;
    const majority = majorityOf(this.state);
    // An agent that does not respond must not delay the election.
    return new Promise((resolve) => {
      const vote = (isGranted: boolean): void => void (isGranted && ++votes >= majority && resolve(true));
      vote(false);
      const onAnswer = (_: string, answer: LeaseAnswer): void => {
        this.state = recordPoll(this.state, answer);
        vote(answer.isGranted);
      };
      void this.#sendAll(request, onAnswer).then(() => resolve(votes >= majority));
    });
  }

  /** Sends a request to all agents and records the answers. Resolves to the reasons of refusals. */
  async ask(
    kind: "form" | "stand" | "renew",
    offset: number,
    ownOffset: number | undefined,
    onAnswer: () => void,
  ): Promise<readonly string[]> {
    const { tenure } = this.state;
    if (tenure === undefined) return [];
    const sentAt = this.now();
    this.#askedAt = sentAt;
    const { self } = this.#options;
    const request: LeaseRequest = {
      from: self,
      epoch: tenure.epoch,
      ...{ kind, offset },
      ...(this.#over === undefined ? {} : { over: this.#over }),
      ...(this.#isAppointed ? { isAppointed: true } : {}),
    };
    // The own promise is durable before another agent sees the epoch.
    const own = await this.answer(request, ownOffset);
    this.state = recordAnswer(this.state, self, tenure.epoch, own, sentAt);
    const reasons = await this.#sendAll(request, (name, answer) => {
      this.state = recordAnswer(this.state, name, tenure.epoch, answer, sentAt);
      onAnswer();
    });
    return [...(own.reason === undefined ? [] : [own.reason]), ...reasons];
  }

  /** Gives up the tenure and informs all agents, so that they need not wait until the lease expires. */
  async release(successor?: string): Promise<void> {
    const { tenure } = this.state;
    this.state = resign(this.state);
    if (tenure === undefined) return;
    const request: LeaseRequest = { ...this.#releaseOf(tenure.epoch), ...(successor === undefined ? {} : { successor }) };
    await this.answer(request, undefined);
    await this.persist(false);
    await this.#sendAll(request, () => undefined);
  }

  /** Sends the own address to the others until the primary renews its lease here: this Pod may have replaced another one. */
  announce(): void {
    if (this.leader !== undefined || this.state.tenure !== undefined || this.sinceAskedMs < leaseTimes.renewMs) return;
    this.#askedAt = this.now();
    void this.#sendAll({ kind: "hello", from: this.#options.self }, () => undefined);
  }

  #releaseOf(epoch: number): LeaseRequest {
    return { from: this.#options.self, epoch, offset: 0, kind: "release" };
  }

  /** Writes what the agent must remember. `isDurable`: before it answers. */
  persist(isDurable = true): Promise<void> {
    this.#writing = this.#writing
      .catch(() => undefined)
      .then(() => {
        const record = recordOf(this.state);
        return this.#options.store.write({ members: this.#members, ...(record === undefined ? {} : { record }) }, isDurable);
      });
    return this.#writing;
  }

  /** A Pod that was replaced has another address. */
  #learn(name: string, host: string): void {
    const known = this.#members.hosts[name];
    if (host === "" || known === undefined || known === host) return;
    this.#members = { ...this.#members, hosts: { ...this.#members.hosts, [name]: host } };
    void this.persist(false).catch(() => undefined);
  }

  #startLease(record: LeaseRecord | undefined): LeaseState {
    const { hosts, maxLagBytes } = this.#members;
    const options = { maxLagBytes, ...(record === undefined ? {} : { record }) };
    return startLease(this.#options.self, Object.keys(hosts), this.#quietFrom, options);
  }

  async #sendAll(
    request: LeaseRequest | { readonly kind: "hello"; readonly from: string },
    onAnswer: (name: string, answer: LeaseAnswer) => void,
  ): Promise<readonly string[]> {
    const { self, host: own, peers } = this.#options;
    const others = Object.entries(this.#members.hosts).filter(([name]) => name !== self);
    const answers = await Promise.all(
      others.map(async ([name, host]) => {
        const answer = await peers.request(host, { ...request, host: own });
        if (answer !== undefined) onAnswer(name, answer);
        return answer === undefined ? `${name} does not respond` : answer.reason;
      }),
    );
    return answers.filter((each) => each !== undefined);
  }
}
