import type { ModelMessage, ModelNode } from "./lease-model-parts.ts";

/** Carries messages between agents, and loses, delays and reorders them. */
export class ModelNetwork {
  readonly #random: () => number;
  #isQuiet: boolean;
  readonly #cuts = new Set<string>();
  #messages: ModelMessage[] = [];

  /** `isQuiet`: no message is lost or late. */
  constructor(random: () => number, isQuiet: boolean) {
    this.#random = random;
    this.#isQuiet = isQuiet;
  }

  cut(a: string, b: string): void {
    this.#cuts.add([a, b].sort().join());
  }

  heal(): void {
    this.#cuts.clear();
  }

  /** Connects all agents. From now on no message is lost or late. */
  settle(now: number): void {
    this.heal();
    this.#isQuiet = true;
    this.#messages = this.#messages.map((message) => ({ ...message, at: Math.min(message.at, now + 100) }));
  }

  isCut(a: string, b: string): boolean {
    return this.#cuts.has([a, b].sort().join());
  }

  /** Sends a message at the time `message.at`. */
  send(message: ModelMessage): void {
    if (!this.#isQuiet && this.#random() < 0.05) return;
    const isSlow = !this.#isQuiet && this.#random() < 0.05;
    this.put({ ...message, at: message.at + this.#random() * (isSlow ? 6_000 : 100) });
  }

  /** Delivers a message at its time. */
  put(message: ModelMessage): void {
    this.#messages.push(message);
  }

  /** Removes the messages that have arrived. */
  take(now: number): readonly ModelMessage[] {
    const due = this.#messages.filter(({ at }) => at <= now);
    this.#messages = this.#messages.filter(({ at }) => at > now);
    return due;
  }
}

/** Pods that accept writes. */
export function writersOf(nodes: readonly ModelNode[]): readonly ModelNode[] {
  return nodes.filter(({ program }) => program.isUp && program.role === "primary" && !program.isFenced);
}

/** Clients write and data is replicated. */
export function work(nodes: readonly ModelNode[], network: ModelNetwork, random: () => number): void {
  for (const { program } of writersOf(nodes)) program.offset += 1;
  for (const node of nodes) {
    const primary = nodes.find(({ name }) => name === node.program.follows);
    const isLinked =
      primary !== undefined && primary !== node && !network.isCut(node.name, primary.name) && primary.program.isUp;
    if (!isLinked || !node.program.isUp || node.program.role !== "replica" || primary.program.role === "other") continue;
    if (random() < 0.6) node.program.offset = primary.program.offset;
  }
}
