import { recordPoll } from "../quorum/candidacy.ts";
import { isReadyFor, recordReady } from "../quorum/formation.ts";
import {
  answerLease,
  isRenewal,
  type LeaseAnswer,
  leaseFrom,
  type LeaseRequest,
  majorityOf,
  type Promised,
  recordAnswer,
  recordOf,
  renewedAt,
  resign,
  stand,
} from "../quorum/lease.ts";
import { leaseTimes } from "../quorum/lease-times.ts";
import type { ModelNetwork } from "./lease-model-network.ts";
import type { ModelNode, ModelOptions } from "./lease-model-parts.ts";

/** What requests need of the model. */
interface ModelWorld {
  readonly nodes: ReadonlyMap<string, ModelNode>;
  readonly network: ModelNetwork;
  readonly flaw: ModelOptions["flaw"];
  now(): number;
  /** Time by the clock of a Pod. */
  local(node: ModelNode): number;
  log(line: string): void;
  /** A majority has granted a request. `offset`: that of its sender. */
  onMajority(kind: "form" | "stand" | "renew", offset: number): void;
}

/** Requests between the agents of a model, and their answers. */
export class ModelRequests {
  readonly #world: ModelWorld;

  constructor(world: ModelWorld) {
    this.#world = world;
  }

  stand(node: ModelNode, over: Promised | undefined, minEpoch = 0): void {
    node.lease = stand(node.lease, this.#world.local(node), minEpoch);
    node.over = over ?? node.over;
    node.standAt = undefined;
    this.#world.log(`stand ${node.name} ${node.lease.tenure?.epoch} over ${JSON.stringify(over)}`);
    this.ask(node, "stand");
  }

  /** Stands if a majority would grant the lease. */
  poll(node: ModelNode, over: Promised | undefined): void {
    const { seenEpoch, members } = node.lease;
    const proof = over ?? node.over;
    const request: LeaseRequest = {
      from: node.name,
      epoch: seenEpoch + 1,
      kind: "poll",
      offset: node.program.offset,
      ...(proof === undefined ? {} : { over: proof }),
      ...(this.#world.flaw === "any-candidate" ? { isAppointed: true } : {}),
    };
    const votes = new Set<string>();
    for (const to of members)
      this.#send(node.name, to, (peer) => {
        const answer = this.#answer(peer, request);
        this.#send(to, node.name, (asker) => {
          asker.lease = recordPoll(asker.lease, answer);
          if (answer.isGranted) votes.add(to);
          if (
            !answer.isGranted ||
            votes.size !== majorityOf(asker.lease) ||
            asker.lease.tenure !== undefined ||
            !asker.program.isUp
          )
            return;
          asker.isAppointed = false;
          this.stand(asker, over);
        });
      });
  }

  ask(node: ModelNode, kind: "form" | "stand" | "renew"): void {
    const { tenure, members } = node.lease;
    if (tenure === undefined) return;
    const sentAt = this.#world.local(node);
    node.askedAt = sentAt;
    const request: LeaseRequest = {
      from: node.name,
      epoch: tenure.epoch,
      offset: node.program.offset,
      kind,
      ...(node.over === undefined ? {} : { over: node.over }),
      ...(node.isAppointed || this.#world.flaw === "any-candidate" ? { isAppointed: true } : {}),
    };
    for (const to of members)
      this.#send(node.name, to, (peer) => {
        const answer = this.#answer(peer, request);
        this.#send(to, node.name, (asker) => {
          asker.lease = recordAnswer(asker.lease, to, request.epoch, answer, sentAt);
          const at = asker.lease.tenure?.epoch === request.epoch ? renewedAt(asker.lease) : undefined;
          if (at === sentAt) this.#world.onMajority(kind, request.offset);
        });
      });
  }

  #answer(node: ModelNode, request: LeaseRequest): LeaseAnswer {
    const { program } = node;
    const offset = program.isUp && program.role !== "other" ? program.offset : undefined;
    const { state, answer } = answerLease(node.lease, request, offset, this.#world.local(node));
    const { tenure } = node.lease;
    node.lease = state;
    if (tenure !== undefined && state.tenure === undefined) this.#sendRelease(node, tenure.epoch);
    if (this.#world.flaw === "short-grants" && answer.isGranted && state.grant !== undefined && request.kind !== "poll")
      node.lease = { ...state, grant: { ...state.grant, expiresAt: this.#world.local(node) + 2_000 } };
    node.record = recordOf(node.lease);
    if (answer.isGranted && isRenewal(request) && request.from !== node.name && program.isUp) {
      if (node.lease.tenure !== undefined) node.lease = resign(node.lease);
      node.guardAt = undefined;
      node.program = { ...program, role: "replica", isFenced: false, follows: request.from };
    }
    return answer;
  }

  release(node: ModelNode, successor?: string): void {
    const epoch = node.lease.tenure?.epoch ?? 0;
    node.lease = resign(node.lease);
    this.#sendRelease(node, epoch, successor);
  }

  #sendRelease(node: ModelNode, epoch: number, successor?: string): void {
    const request: LeaseRequest = { from: node.name, epoch, offset: 0, kind: "release", ...(successor ? { successor } : {}) };
    for (const to of node.lease.members)
      this.#send(node.name, to, (peer) => {
        this.#answer(peer, request);
        const isNamed = successor === peer.name && peer.lease.promised?.holder === peer.name && peer.lease.tenure === undefined;
        if (isNamed && peer.program.isUp && peer.program.role === "replica") this.stand(peer, { holder: node.name, epoch });
      });
  }

  /** The first primary asks whether a majority can grant its lease, and requests it. */
  form(node: ModelNode): void {
    node.askedAt = this.#world.local(node);
    node.ready = [];
    for (const to of node.lease.members) {
      if (to === node.name) continue;
      this.#send(node.name, to, (peer) => {
        if (!isReadyFor(peer.lease, node.name)) return;
        this.#send(to, node.name, (asker) => {
          asker.ready = [...asker.ready, to];
          if (this.#world.flaw === "late-count") return this.ask(asker, "form");
          if (asker.lease.tenure?.formation !== "waiting") return;
          asker.lease = recordReady(asker.lease, asker.ready, this.#world.local(asker));
          const at = leaseFrom(asker.lease);
          if (at === undefined) return;
          asker.guardAt = at + leaseTimes.guardMs;
          this.ask(asker, "form");
        });
      });
    }
  }

  #send(from: string, to: string, deliver: (node: ModelNode) => void): void {
    const node = this.#world.nodes.get(to);
    // An agent responds itself, and persists that, before it asks others.
    if (from !== to) this.#world.network.send({ at: this.#world.now(), from, to, deliver });
    else if (node !== undefined) deliver(node);
  }
}
