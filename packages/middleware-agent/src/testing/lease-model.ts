import { repeatCandidacy, standDelayMs } from "../quorum/candidacy.ts";
import { dutyOf } from "../quorum/duty.ts";
import { isForming, startFormation } from "../quorum/formation.ts";
import { leaseFrom, mayWrite, promoted, promotedHolder, renewedAt, startLease } from "../quorum/lease.ts";
import { leaseTimes } from "../quorum/lease-times.ts";
import { canElect, canFailOver, canSwitchOver, chooseOne } from "./lease-model-faults.ts";
import { ModelNetwork, work, writersOf } from "./lease-model-network.ts";
import { createNode, type LeaseModel, type ModelNode, type ModelOptions, seeded, stepMs } from "./lease-model-parts.ts";
import { ModelRequests } from "./lease-model-requests.ts";

/** A {@link LeaseModel} whose first member is the primary. */
export class Model implements LeaseModel {
  readonly history: string[] = [];
  violation: string | undefined;
  elections = 0;
  isFormed = false;
  #majority: readonly ModelNode[] = [];
  readonly #options: ModelOptions;
  readonly #random: () => number;
  readonly #nodes = new Map<string, ModelNode>();
  readonly #network: ModelNetwork;
  #now = 0;
  #reported = 0;
  #epoch = 1;

  readonly #requests: ModelRequests;

  constructor(options: ModelOptions) {
    this.#options = options;
    this.#random = seeded(options.seed);
    this.#network = new ModelNetwork(this.#random, options.isQuiet === true);
    this.#requests = new ModelRequests({
      ...{ nodes: this.#nodes, network: this.#network, flaw: options.flaw },
      now: () => this.#now,
      local: (node) => this.#local(node),
      log: (line) => this.#log(line),
      onMajority: (kind, offset) => {
        this.isFormed = true;
        if (kind !== "stand") this.#reported = Math.max(this.#reported, offset);
      },
    });
    const names = Array.from({ length: options.size }, (_, index) => `p-${index}`);
    for (const name of names) this.#nodes.set(name, createNode(name, names, 0.98 + this.#random() * 0.04));
  }

  step(): void {
    this.#now += stepMs;
    if (this.#options.isQuiet !== true && this.#majority.length === 0) this.#disturb();
    if (this.#random() < 0.1) this.#setMembers();
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

  settle(): boolean {
    const nodes = [...this.#nodes.values()];
    for (const node of nodes) {
      node.isFrozen = false;
      if (node.downUntil !== undefined) this.#restart(node);
    }
    this.#network.settle(this.#now);
    const majority = (this.#majority = nodes.sort(() => this.#random() - 0.5).slice(0, Math.floor(nodes.length / 2) + 1));
    for (const node of majority)
      for (const other of nodes) if (!majority.includes(other)) this.#network.cut(node.name, other.name);
    this.#log(`settle ${majority.map(({ name }) => name).join()}`);
    return canElect(majority);
  }

  get hasSettledPrimary(): boolean {
    return writersOf(this.#majority).length > 0;
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
      [this.#options.losesVolumes === true ? 0.002 : 0, () => this.#loseVolume(node)],
      [0.003, () => void (node.isFrozen = true)],
      [0.01, () => nodes.forEach((each) => void (each.isFrozen = false))],
      [0.004, () => this.#switchOver(node, other)],
      [0.004, () => this.#failOver(node)],
      [0.02, () => this.#assignPrimary(node)],
    ];
    chooseOne(this.#random(), faults)?.();
  }

  /** The controller sets the members, of the primary last. */
  #setMembers(): void {
    const nodes = [...this.#nodes.values()];
    const [first] = nodes;
    const late = [...nodes].reverse().find(({ lease }) => lease.members.length === 0);
    if (first === undefined || late === undefined || late.isFrozen || late.downUntil !== undefined) return;
    const [now, { record }] = [this.#local(late), late];
    late.lease = startLease(late.name, [...this.#nodes.keys()], late.startedAt, record === undefined ? {} : { record });
    if (late === first && late.program.role === "primary") late.lease = startFormation(late.lease, now, 1);
  }

  #crash(node: ModelNode, durationMs: number): void {
    this.#log(`crash ${node.name}`);
    node.program = { ...node.program, isUp: false };
    node.isFrozen = false;
    node.downUntil = this.#now + durationMs;
  }

  #loseVolume(node: ModelNode): void {
    this.#crash(node, this.#random() * 5_000);
    node.record = undefined;
    node.lease = startLease(node.name, [], 0);
    node.program = { ...node.program, offset: 0 };
  }

  #restart(node: ModelNode): void {
    const { members } = node.lease;
    node.downUntil = undefined;
    node.guardAt = undefined;
    node.startedAt = this.#local(node);
    node.lease = startLease(node.name, members, node.startedAt, node.record === undefined ? {} : { record: node.record });
    if (this.#options.flaw === "no-quiet-time") node.lease = { ...node.lease, quietUntil: 0 };
    node.program = { ...node.program, isUp: true, role: "other", isFenced: true };
    this.#log(`restart ${node.name}`);
  }

  /** A planned switchover: fences the primary, waits for the replica, and hands the lease over. */
  #switchOver(node: ModelNode, other: ModelNode): void {
    if (!canSwitchOver(node, other, this.#network)) return;
    node.program.isFenced = true;
    other.program.offset = node.program.offset;
    node.guardAt = undefined;
    this.#log(`switchover ${node.name} -> ${other.name}`);
    this.#requests.release(node, other.name);
  }

  /** A failover by the controller: the replica fences the primary, or finds it down, and stands. */
  #failOver(node: ModelNode): void {
    const promised = promotedHolder(node.lease);
    const old = this.#nodes.get(promised?.holder ?? "");
    if (promised === undefined || old === undefined || !canFailOver(node, old, this.#network)) return;
    if (old.program.isUp) {
      old.program.isFenced = true;
      node.program.offset = Math.max(node.program.offset, old.program.offset);
    }
    node.isAppointed = true;
    this.#requests.stand(node, promised);
  }

  /** The controller makes a restarted Pod the primary, after all of them were restarted. */
  #assignPrimary(node: ModelNode): void {
    const isPossible = node.downUntil === undefined && !node.isFrozen && node.program.isUp && node.program.role === "other";
    // Before there are leases, the controller relies on nothing but the end of the first primary.
    const isSafe = this.isFormed || writersOf([...this.#nodes.values()]).length === 0;
    if (!isPossible || !isSafe || node.lease.tenure !== undefined) return;
    node.isAppointed = true;
    // The controller has recorded the epoch of the last primary, which the agent may have forgotten.
    this.#requests.stand(node, undefined, this.#epoch + 1);
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
      this.#requests.release(node);
      this.#crash(node, 1_000);
      return;
    }
    const proven = promotedHolder(node.lease);
    const holder = this.#nodes.get(proven?.holder ?? "");
    const isHolderDown =
      holder !== undefined && holder !== node && !this.#network.isCut(node.name, holder.name) && !holder.program.isUp;
    const duty = dutyOf(node.lease, { ...node.program, isHolderDown }, now);
    if (duty !== "stand") node.standAt = undefined;
    if (duty === "form") {
      if (now - node.askedAt >= leaseTimes.renewMs) this.#requests.form(node);
    } else if (duty === "renew") {
      const at = leaseFrom(node.lease);
      if (at !== undefined) node.guardAt = at + leaseTimes.guardMs;
      if (now - node.askedAt >= leaseTimes.renewMs) this.#requests.ask(node, isForming(node.lease) ? "form" : "renew");
    } else if (duty === "repeat") {
      node.lease = repeatCandidacy(node.lease, now);
      this.#requests.ask(node, "stand");
    } else if (duty === "step-down" || duty === "give-up") {
      this.#log(`${duty} ${node.name}`);
      node.program.isFenced = true;
      node.guardAt = undefined;
      this.#requests.release(node);
    } else if (duty === "promote") this.#promote(node);
    else if (duty === "stand") {
      node.standAt ??= now + standDelayMs(node.lease, this.#random());
      if (now < node.standAt) return;
      node.standAt = undefined;
      this.#requests.poll(node, isHolderDown ? proven : undefined);
    }
  }

  #promote(node: ModelNode): void {
    this.#epoch = Math.max(this.#epoch, node.lease.tenure?.epoch ?? 0);
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
