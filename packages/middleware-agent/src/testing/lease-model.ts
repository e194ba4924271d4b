import { dutyOf } from "../quorum/duty.ts";
import {
  answerLease,
  type LeaseAnswer,
  type LeaseRequest,
  leaseTimes,
  mayWrite,
  type Promised,
  promoted,
  promotedHolder,
  recordAnswer,
  recordOf,
  renewedAt,
  resign,
  stand,
  standDelayMs,
  startLease,
} from "../quorum/lease.ts";
import { createNode, type LeaseModel, type ModelNode, type ModelOptions, seeded, stepMs } from "./lease-model-parts.ts";
import { ModelNetwork, work, writersOf } from "./lease-model-network.ts";

// The first primary has its first majority.
const settleMs = 10_000;

/** A {@link LeaseModel} whose first member is the primary. */
export class Model implements LeaseModel {
  readonly history: string[] = [];
  violation: string | undefined;
  elections = 0;
  readonly #options: ModelOptions;
  readonly #random: () => number;
  readonly #nodes = new Map<string, ModelNode>();
  readonly #network: ModelNetwork;
  #now = 0;
  #reported = 0;

  constructor(options: ModelOptions) {
    this.#options = options;
    this.#random = seeded(options.seed);
    this.#network = new ModelNetwork(this.#random, options.isQuiet === true);
    const names = Array.from({ length: options.size }, (_, index) => `p-${index}`);
    for (const name of names) this.#nodes.set(name, createNode(name, names, 0.98 + this.#random() * 0.04));
    const [primary] = this.#nodes.values();
    if (primary !== undefined)
      primary.lease = {
        ...stand(primary.lease, 0),
        tenure: { epoch: 1, startedAt: 0, grants: {}, isFirst: true, isPromoted: true },
      };
  }

  step(): void {
    this.#now += stepMs;
    if (this.#options.isQuiet !== true && this.#now > settleMs) this.#disturb();
    for (const message of this.#network.take(this.#now)) {
      const node = this.#nodes.get(message.to);
      if (node === undefined || node.downUntil !== undefined || this.#network.isCut(message.from, message.to)) continue;
      // A frozen agent handles its messages when it resumes.
      if (node.isFrozen) this.#network.put({ ...message, at: this.#now + stepMs });
      else message.deliver(node);
    }
    for (const node of this.#nodes.values()) this.#advance(node);
    work([...this.#nodes.values()], this.#network, this.#random);
    this.#check();
  }

  writable(): string | undefined {
    return writersOf([...this.#nodes.values()])[0]?.name;
  }

  fail(name: string, fault: "kill" | "freeze"): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    this.#log(`${fault} ${name}`);
    if (fault === "freeze") node.isFrozen = true;
    else this.#crash(node, 5_000);
  }

  #send(from: string, to: string, deliver: (node: ModelNode) => void): void {
    const node = this.#nodes.get(to);
    // An agent answers itself, and persists that, before it asks others.
    if (from !== to) this.#network.send({ at: this.#now, from, to, deliver });
    else if (node !== undefined) deliver(node);
  }

  #log(line: string): void {
    this.history.push(`${this.#now} ${line}`);
  }

  #local({ rate }: ModelNode): number {
    return this.#now * rate;
  }

  /** Random faults and requests of the controller. */
  #disturb(): void {
    const nodes = [...this.#nodes.values()];
    const pick = (): ModelNode | undefined => nodes[Math.floor(this.#random() * nodes.length)];
    const [node, other] = [pick(), pick()];
    if (node === undefined || other === undefined) return;
    const cut = (a: ModelNode, b: ModelNode): void => this.#network.cut(a.name, b.name);
    const faults: readonly (readonly [chance: number, act: () => void])[] = [
      [0.004, () => node !== other && cut(node, other)],
      [0.002, () => nodes.filter((each) => each !== node).forEach((each) => cut(node, each))],
      [0.01, () => this.#network.heal()],
      [0.004, () => this.#crash(node, this.#random() * 10_000)],
      [0.003, () => void (node.isFrozen = true)],
      [0.01, () => nodes.forEach((each) => void (each.isFrozen = false))],
      [0.004, () => this.#switchOver(node, other)],
      [0.004, () => this.#failOver(node)],
      [0.02, () => this.#assignPrimary(node)],
    ];
    let chance = this.#random();
    for (const [share, act] of faults) {
      chance -= share;
      if (chance >= 0) continue;
      act();
      return;
    }
  }

  #crash(node: ModelNode, durationMs: number): void {
    this.#log(`crash ${node.name}`);
    node.program = { ...node.program, isUp: false };
    node.isFrozen = false;
    node.downUntil = this.#now + durationMs;
  }

  #restart(node: ModelNode): void {
    const { members } = node.lease;
    node.downUntil = undefined;
    node.guardAt = undefined;
    node.lease = startLease(node.name, members, this.#local(node), node.record === undefined ? {} : { record: node.record });
    if (this.#options.flaw === "no-quiet-time") node.lease = { ...node.lease, quietUntil: 0 };
    node.program = { ...node.program, isUp: true, role: "other", isFenced: true };
    this.#log(`restart ${node.name}`);
  }

  /** A planned switchover: fences the primary, waits for the replica, and hands the lease over. */
  #switchOver(node: ModelNode, other: ModelNode): void {
    const { tenure } = node.lease;
    const isPossible =
      tenure?.isPromoted === true && !node.isFrozen && node.program.isUp && !this.#network.isCut(node.name, other.name);
    if (!isPossible || other === node || other.program.follows !== node.name || other.program.role !== "replica") return;
    node.program.isFenced = true;
    other.program.offset = node.program.offset;
    this.#log(`switchover ${node.name} -> ${other.name}`);
    this.#release(node, other.name);
  }

  /** A failover by the controller: the replica fences the primary, or finds it down, and stands. */
  #failOver(node: ModelNode): void {
    const { tenure } = node.lease;
    const promised = promotedHolder(node.lease);
    const old = this.#nodes.get(promised?.holder ?? "");
    if (promised === undefined || tenure !== undefined || old === undefined || old === node) return;
    if (
      node.isFrozen ||
      node.downUntil !== undefined ||
      node.program.role !== "replica" ||
      this.#network.isCut(node.name, old.name)
    )
      return;
    if (node.program.follows !== old.name) return;
    if (old.program.isUp) {
      old.program.isFenced = true;
      node.program.offset = Math.max(node.program.offset, old.program.offset);
    }
    node.isAppointed = true;
    this.#stand(node, promised);
  }

  /** The controller makes a restarted Pod the primary, after all of them were restarted. */
  #assignPrimary(node: ModelNode): void {
    const isPossible = node.downUntil === undefined && !node.isFrozen && node.program.isUp && node.program.role === "other";
    if (!isPossible || node.lease.tenure !== undefined) return;
    node.isAppointed = true;
    this.#stand(node, undefined);
  }

  #stand(node: ModelNode, over: Promised | undefined): void {
    node.lease = stand(node.lease, this.#local(node));
    node.over = over ?? node.over;
    node.standAt = undefined;
    this.#log(`stand ${node.name} ${node.lease.tenure?.epoch} over ${JSON.stringify(over)}`);
    this.#ask(node, "stand");
  }

  #ask(node: ModelNode, kind: "stand" | "renew"): void {
    const { tenure, members } = node.lease;
    if (tenure === undefined) return;
    const sentAt = this.#local(node);
    node.askedAt = sentAt;
    const request: LeaseRequest = {
      from: node.name,
      epoch: tenure.epoch,
      offset: node.program.offset,
      kind,
      ...(node.over === undefined ? {} : { over: node.over }),
      ...(node.isAppointed || this.#options.flaw === "any-candidate" ? { isAppointed: true } : {}),
    };
    for (const to of members)
      this.#send(node.name, to, (peer) => {
        const answer = this.#answer(peer, request);
        this.#send(to, node.name, (asker) => {
          asker.lease = recordAnswer(asker.lease, to, request.epoch, answer, sentAt);
          if (kind === "renew" && asker.lease.tenure?.epoch === request.epoch && renewedAt(asker.lease) === sentAt)
            this.#reported = Math.max(this.#reported, request.offset);
        });
      });
  }

  #answer(node: ModelNode, request: LeaseRequest): LeaseAnswer {
    const { program } = node;
    const offset = program.isUp && program.role !== "other" ? program.offset : undefined;
    const { state, answer } = answerLease(node.lease, request, offset, this.#local(node));
    node.lease = state;
    if (this.#options.flaw === "short-grants" && state.grant !== undefined)
      node.lease = { ...state, grant: { ...state.grant, expiresAt: this.#local(node) + 2_000 } };
    node.record = recordOf(node.lease);
    if (answer.isGranted && request.kind === "renew" && request.from !== node.name && program.isUp) {
      if (node.lease.tenure !== undefined) node.lease = resign(node.lease);
      node.guardAt = undefined;
      node.program = { ...program, role: "replica", isFenced: false, follows: request.from };
    }
    return answer;
  }

  #release(node: ModelNode, successor?: string): void {
    const epoch = node.lease.tenure?.epoch ?? 0;
    node.lease = resign(node.lease);
    const request: LeaseRequest = { from: node.name, epoch, offset: 0, kind: "release", ...(successor ? { successor } : {}) };
    for (const to of node.lease.members)
      this.#send(node.name, to, (peer) => {
        this.#answer(peer, request);
        const isNamed = successor === peer.name && peer.lease.promised?.holder === peer.name && peer.lease.tenure === undefined;
        if (isNamed && peer.program.isUp && peer.program.role === "replica") this.#stand(peer, { holder: node.name, epoch });
      });
  }

  /** One turn of an agent and of its guard. */
  #advance(node: ModelNode): void {
    const now = this.#local(node);
    if (node.downUntil !== undefined) {
      if (this.#now >= node.downUntil) this.#restart(node);
      return;
    }
    if (node.guardAt !== undefined && now >= node.guardAt && node.program.isUp) {
      this.#log(`guard kills ${node.name}`);
      node.program = { ...node.program, isUp: false };
      // The agent ends with its program.
      if (!node.isFrozen) this.#crash(node, 1_000);
      return;
    }
    if (node.isFrozen) return;
    if (!node.program.isUp) {
      this.#release(node);
      this.#crash(node, 1_000);
      return;
    }
    const proven = promotedHolder(node.lease);
    const holder = this.#nodes.get(proven?.holder ?? "");
    const isHolderDown =
      holder !== undefined && holder !== node && !this.#network.isCut(node.name, holder.name) && !holder.program.isUp;
    const duty = dutyOf(node.lease, { ...node.program, isHolderDown }, now);
    if (duty !== "stand") node.standAt = undefined;
    if (duty === "renew") {
      const at = renewedAt(node.lease);
      if (at !== undefined) node.guardAt = at + leaseTimes.guardMs;
      if (now - node.askedAt >= leaseTimes.renewMs) this.#ask(node, "renew");
    } else if (duty === "step-down" || duty === "give-up") {
      this.#log(`${duty} ${node.name}`);
      node.program.isFenced = true;
      node.guardAt = undefined;
      this.#release(node);
    } else if (duty === "promote") this.#promote(node);
    else if (duty === "stand") {
      node.standAt ??= now + standDelayMs(node.lease, this.#random());
      if (now < node.standAt) return;
      node.isAppointed = false;
      this.#stand(node, isHolderDown ? proven : undefined);
    }
  }

  #promote(node: ModelNode): void {
    this.#log(`promote ${node.name} ${node.lease.tenure?.epoch} offset ${node.program.offset}`);
    this.elections += 1;
    if (!node.isAppointed && node.program.offset < this.#reported)
      this.violation = `lost writes: ${node.name} has ${node.program.offset} of ${this.#reported}`;
    this.#reported = Math.min(this.#reported, node.program.offset);
    node.guardAt = (renewedAt(node.lease) ?? 0) + leaseTimes.guardMs;
    node.lease = promoted(node.lease);
    node.program = { ...node.program, role: "primary", isFenced: !mayWrite(node.lease, this.#local(node)), follows: node.name };
    node.askedAt = 0;
  }

  #check(): void {
    const writers = writersOf([...this.#nodes.values()]);
    if (writers.length > 1) this.violation = `two writable primaries: ${writers.map(({ name }) => name).join()}`;
  }
}
