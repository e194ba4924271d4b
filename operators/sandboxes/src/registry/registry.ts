import { normalizeImage } from "../sandbox/image-store.ts";

/** What the registry knows of an agent. */
export interface RegisteredAgent {
  readonly name: string;
  readonly namespace: string;
  readonly pool: string;
  readonly node: string;
  /** Address that its sandboxes listen on. */
  readonly address: string;
  readonly capacity: number;
  readonly images: readonly string[];
  readonly isReady: boolean;
}

/** What is looked for. */
export interface AllocationRequest {
  /** `namespace/name` of the sandbox; has at most one place. */
  readonly key: string;
  readonly namespace: string;
  readonly pool: string;
  readonly image: string;
  readonly ports: readonly number[];
  /** Agents that refused it already. */
  readonly except?: ReadonlySet<string>;
}

/** A place for a sandbox, or why there is none. */
export type Allocation = { readonly agent: RegisteredAgent } | { readonly problem: string };

interface Slot {
  agent: RegisteredAgent;
  readonly sandboxes: Map<string, readonly number[]>;
}

/**
 * Who has room for what. Every method is one synchronous step, so two callers never get the same place.
 *
 * **Guarantees**: no agent has more sandboxes than its capacity, but for those it is known to have by {@link Registry.restore};
 * no port is twice on an agent; a key has one place at most; what an agent that is lost has stays taken until it is released.
 */
export interface Registry {
  /** Adds an agent or changes what is known of one; its sandboxes stay. */
  register(agent: RegisteredAgent): void;
  /** Takes an agent that has no sandbox out of service, for good: nothing is given away there any more. False where it has one. */
  drain(namespace: string, name: string): boolean;
  /** Takes back a {@link Registry.drain}. */
  resume(namespace: string, name: string): void;
  /** Forgets an agent and every place on it. */
  remove(namespace: string, name: string): void;
  allocate(request: AllocationRequest): Allocation;
  /** Notes a place that is known to be taken, also of an agent that is not registered yet. */
  restore(key: string, namespace: string, agent: string, ports: readonly number[]): void;
  /** Frees the place of a sandbox; nothing where it has none. */
  release(key: string): void;
  /** The agent that has the place of a sandbox. */
  placeOf(key: string): string | undefined;
  agent(namespace: string, name: string): RegisteredAgent | undefined;
  agents(): readonly RegisteredAgent[];
  /** How many places of an agent are taken. */
  allocated(namespace: string, name: string): number;
}

const missingImagePenalty = 1000;

/** Makes an empty {@link Registry}. */
export function createRegistry(): Registry {
  const slots = new Map<string, Slot>();
  const places = new Map<string, string>();
  /** Places of agents that were not heard of yet. */
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
      if (wanted.size !== ports.length) return { problem: "a port is asked for twice" };
      const present = places.get(key);
      const presentAgent = present === undefined ? undefined : slots.get(present)?.agent;
      if (presentAgent !== undefined && !except?.has(presentAgent.name)) return { agent: presentAgent };
      const name = normalizeImage(image);
      const reasons = { full: 0, ports: 0, notReady: 0, refused: 0 };
      let best: Slot | undefined;
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
      if (best === undefined) return { problem: explain(pool, reasons) };
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
    placeOf: (key) => places.get(key)?.split("/")[1],
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

function explain(pool: string, reasons: Readonly<Record<string, number>>): string {
  const words: Readonly<Record<string, string>> = {
    full: "full",
    ports: "with one of the ports taken",
    notReady: "not heard of",
    refused: "that refused it",
  };
  const parts = Object.entries(reasons).filter(([, count]) => count > 0);
  if (parts.length === 0) return `no agent has room: pool ${pool} has no agents`;
  return `no agent of pool ${pool} has room: ${parts.map(([reason, count]) => `${count} ${words[reason]}`).join(", ")}`;
}
