import { normalizeImage } from "../sandbox/image-store.ts";

/** An agent in the registry. */
export interface RegisteredAgent {
  readonly name: string;
  readonly namespace: string;
  readonly pool: string;
  readonly node: string;
  /** Address at which its sandboxes' ports are reachable. */
  readonly address: string;
  readonly capacity: number;
  readonly images: readonly string[];
  readonly isReady: boolean;
}

/** A request for a slot. */
export interface AllocationRequest {
  /** `namespace/name` of the sandbox, which has at most one slot. */
  readonly key: string;
  readonly namespace: string;
  readonly pool: string;
  readonly image: string;
  readonly ports: readonly number[];
  /** Agents that have already rejected it. */
  readonly except?: ReadonlySet<string>;
}

/** The agent with the slot, or why none is available. */
export type Allocation = { readonly agent: RegisteredAgent } | { readonly problem: string };

interface AgentEntry {
  agent: RegisteredAgent;
  readonly sandboxes: Map<string, readonly number[]>;
}

/**
 * Allocates sandbox slots on agents. Every method is one synchronous step, so two callers never get the same slot.
 *
 * **Guarantees**: no agent exceeds its capacity, except through {@link Registry.restore}; no port is used twice on an agent; a key has at
 * most one slot; slots of a lost agent stay allocated until they are released.
 */
export interface Registry {
  /** Adds or updates an agent; its slots are kept. */
  register(agent: RegisteredAgent): void;
  /** Permanently stops allocating on an agent without sandboxes. False if it has one. */
  drain(namespace: string, name: string): boolean;
  /** Reverts a {@link Registry.drain}. */
  resume(namespace: string, name: string): void;
  /** Removes an agent and its slots. */
  remove(namespace: string, name: string): void;
  allocate(request: AllocationRequest): Allocation;
  /** Records an allocated slot, even on an agent that has not registered yet. */
  restore(key: string, namespace: string, agent: string, ports: readonly number[]): void;
  /** Frees the slot of a sandbox, if it has one. */
  release(key: string): void;
  /** The agent that holds the slot of a sandbox. */
  agentOf(key: string): string | undefined;
  agent(namespace: string, name: string): RegisteredAgent | undefined;
  agents(): readonly RegisteredAgent[];
  /** The number of allocated slots of an agent. */
  allocated(namespace: string, name: string): number;
}

const missingImagePenalty = 1000;

/** Creates an empty {@link Registry}. */
export function createRegistry(): Registry {
  const slots = new Map<string, AgentEntry>();
  const places = new Map<string, string>();
  /** Slots of agents that have not registered yet. */
  const waiting = new Map<string, Map<string, readonly number[]>>();
  const idOf = (namespace: string, name: string): string => `${namespace}/${name}`;

  const draining = new Set<string>();

  const release = (key: string): void => {
    const id = places.get(key);
    if (id === undefined) return;
    places.delete(key);
    slots.get(id)?.sandboxes.delete(key);
    waiting.get(id)?.delete(key);
  };

  return {
    register(agent) {
      const id = idOf(agent.namespace, agent.name);
      const slot = slots.get(id);
      const images = agent.images.map(normalizeImage);
      if (slot !== undefined) {
        slot.agent = { ...agent, images };
        return;
      }
      slots.set(id, { agent: { ...agent, images }, sandboxes: waiting.get(id) ?? new Map() });
      waiting.delete(id);
    },
    drain(namespace, name) {
      const id = idOf(namespace, name);
      if ((slots.get(id)?.sandboxes ?? waiting.get(id))?.size) return false;
      draining.add(id);
      return true;
    },
    resume: (namespace, name) => void draining.delete(idOf(namespace, name)),
    remove(namespace, name) {
      const id = idOf(namespace, name);
      draining.delete(id);
      for (const key of slots.get(id)?.sandboxes.keys() ?? []) places.delete(key);
      for (const key of waiting.get(id)?.keys() ?? []) places.delete(key);
      slots.delete(id);
      waiting.delete(id);
    },
    allocate({ key, namespace, pool, image, ports, except }) {
      const wanted = new Set(ports);
      if (wanted.size !== ports.length) return { problem: "a port is requested twice" };
      const present = places.get(key);
      const presentAgent = present === undefined ? undefined : slots.get(present)?.agent;
      if (presentAgent !== undefined && !except?.has(presentAgent.name)) return { agent: presentAgent };
      const name = normalizeImage(image);
      const reasons = { full: 0, ports: 0, notReady: 0, refused: 0 };
      let best: AgentEntry | undefined;
      let bestScore = Number.POSITIVE_INFINITY;
      for (const slot of slots.values()) {
        const { agent, sandboxes } = slot;
        if (agent.namespace !== namespace || agent.pool !== pool) continue;
        if (!agent.isReady || draining.has(idOf(namespace, agent.name))) reasons.notReady++;
        else if (except?.has(agent.name)) reasons.refused++;
        else if (sandboxes.size >= agent.capacity) reasons.full++;
        else if (hasConflict(sandboxes, wanted)) reasons.ports++;
        else {
          const score = sandboxes.size + (agent.images.includes(name) ? 0 : missingImagePenalty);
          if (score >= bestScore) continue;
          best = slot;
          bestScore = score;
        }
      }
      if (best === undefined) return { problem: explainFullPool(pool, reasons) };
      release(key);
      best.sandboxes.set(key, [...wanted]);
      places.set(key, idOf(namespace, best.agent.name));
      return { agent: best.agent };
    },
    restore(key, namespace, agent, ports) {
      const id = idOf(namespace, agent);
      if (places.get(key) === id) return;
      release(key);
      places.set(key, id);
      const slot = slots.get(id);
      if (slot !== undefined) {
        slot.sandboxes.set(key, ports);
        return;
      }
      const kept = waiting.get(id) ?? new Map<string, readonly number[]>();
      kept.set(key, ports);
      waiting.set(id, kept);
    },
    release,
    agentOf: (key) => places.get(key)?.split("/")[1],
    agent: (namespace, name) => slots.get(idOf(namespace, name))?.agent,
    agents: () => [...slots.values()].map((slot) => slot.agent),
    allocated(namespace, name) {
      const id = idOf(namespace, name);
      return (slots.get(id)?.sandboxes ?? waiting.get(id))?.size ?? 0;
    },
  };
}

function hasConflict(sandboxes: ReadonlyMap<string, readonly number[]>, wanted: ReadonlySet<number>): boolean {
  if (wanted.size === 0) return false;
  for (const ports of sandboxes.values()) if (ports.some((port) => wanted.has(port))) return true;
  return false;
}

function explainFullPool(pool: string, reasons: Readonly<Record<string, number>>): string {
  const labels: Readonly<Record<string, string>> = {
    full: "full",
    ports: "with a port conflict",
    notReady: "not ready",
    refused: "that rejected it",
  };
  const parts = Object.entries(reasons).filter(([, count]) => count > 0);
  if (parts.length === 0) return `no free slot: pool ${pool} has no agents`;
  return `no free slot in pool ${pool}: ${parts.map(([reason, count]) => `${count} ${labels[reason]}`).join(", ")}`;
}
