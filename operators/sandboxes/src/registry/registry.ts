import type { DeepReadonly } from "@keelson/api-machinery";
import type { Sandbox } from "../api/sandbox.ts";
import { isExclusive, type VolumeReference } from "../volumes/volume-mount.ts";
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
  /** Volumes of the namespace that it uses. */
  readonly volumes?: readonly VolumeReference[];
  /** The only agent that can take it. Default: any of the pool. */
  readonly only?: string | undefined;
  /** Agents that have already rejected it. */
  readonly except?: ReadonlySet<string>;
  /** Id of the sandbox that holds the slot until its object does. Default: the object. */
  readonly holder?: string;
}

/** The agent with the slot, or why none is available. */
export type Allocation = { readonly agent: RegisteredAgent } | { readonly problem: string };

/** What a sandbox has of its agent for itself. */
export interface SlotClaims {
  readonly ports: readonly number[];
  readonly volumes?: readonly VolumeReference[];
}

/** The claims of a Sandbox. */
export const claimsOf = ({ exposedPorts = [], volumes = [] }: DeepReadonly<Sandbox["spec"]>): SlotClaims => ({
  ports: exposedPorts,
  ...(volumes.length > 0 && { volumes }),
});

interface AgentEntry {
  agent: RegisteredAgent;
  readonly sandboxes: Map<string, SlotClaims>;
}

const missingImagePenalty = 1000;

/** An allocated slot. */
interface Slot {
  /** Key of the agent. */
  readonly agent: string;
  readonly holder: string | undefined;
}

/**
 * Allocates sandbox slots on agents. Every method is one synchronous step, so two callers never get the same slot.
 *
 * **Guarantees**: no agent exceeds its capacity, except through {@link Registry.restore}; no port is used twice on an agent; a key has at
 * most one slot; slots of a lost agent stay allocated until they are released.
 */
export class Registry {
  readonly #agents = new Map<string, AgentEntry>();
  /** The allocated slots, by the sandbox's key. */
  readonly #slots = new Map<string, Slot>();
  /** Slots of agents that have not registered yet. */
  readonly #unregistered = new Map<string, Map<string, SlotClaims>>();
  readonly #draining = new Set<string>();
  readonly #onRelease: (agent: RegisteredAgent) => void;

  /** `onRelease` is called after a slot of a registered agent was freed. */
  constructor(onRelease: (agent: RegisteredAgent) => void = () => {}) {
    this.#onRelease = onRelease;
  }

  /** Adds or updates an agent; its slots are kept. */
  register(agent: RegisteredAgent): void {
    const id = idOf(agent.namespace, agent.name);
    const registered = { ...agent, images: agent.images.map(normalizeImage) };
    const entry = this.#agents.get(id);
    if (entry !== undefined) {
      entry.agent = registered;
      return;
    }
    this.#agents.set(id, { agent: registered, sandboxes: this.#unregistered.get(id) ?? new Map() });
    this.#unregistered.delete(id);
  }

  /** Permanently stops allocating on an agent without sandboxes. False if it has one. */
  drain(namespace: string, name: string): boolean {
    if (this.allocated(namespace, name) > 0) return false;
    this.#draining.add(idOf(namespace, name));
    return true;
  }

  /** Reverts a {@link Registry.drain}. */
  resume(namespace: string, name: string): void {
    this.#draining.delete(idOf(namespace, name));
  }

  /** Removes an agent and its slots. */
  remove(namespace: string, name: string): void {
    const id = idOf(namespace, name);
    this.#draining.delete(id);
    for (const key of this.#slotsOf(id)?.keys() ?? []) this.#slots.delete(key);
    this.#agents.delete(id);
    this.#unregistered.delete(id);
  }

  /** Allocates a slot on the least loaded agent, preferring those that have the image. */
  allocate(request: AllocationRequest): Allocation {
    const { key, namespace, ports, pool, except, holder, only, volumes } = request;
    const wanted: SlotClaims = { ports, ...(volumes !== undefined && { volumes }) };
    if (new Set(ports).size !== ports.length) return { problem: "a port is requested twice" };
    const slot = this.#slots.get(key);
    const present = this.#agents.get(slot?.agent ?? "")?.agent;
    if (slot !== undefined && present !== undefined && !except?.has(present.name)) {
      this.#slots.set(key, { ...slot, holder });
      return { agent: present };
    }
    const image = normalizeImage(request.image);
    const rejections: Record<Rejection, number> = { full: 0, ports: 0, volumes: 0, notReady: 0, refused: 0 };
    let best: AgentEntry | undefined;
    let bestScore = Number.POSITIVE_INFINITY;
    for (const entry of this.#agents.values()) {
      if (entry.agent.namespace !== namespace || entry.agent.pool !== pool) continue;
      if (only !== undefined && entry.agent.name !== only) continue;
      const rejection = this.#findRejection(entry, wanted, except);
      if (rejection !== undefined) {
        rejections[rejection]++;
        continue;
      }
      const score = entry.sandboxes.size + (entry.agent.images.includes(image) ? 0 : missingImagePenalty);
      if (score >= bestScore) continue;
      best = entry;
      bestScore = score;
    }
    if (best === undefined)
      return { problem: only === undefined ? explainFullPool(pool, rejections) : explainAgent(only, volumes, rejections) };
    this.release(key);
    best.sandboxes.set(key, wanted);
    this.#slots.set(key, { agent: idOf(namespace, best.agent.name), holder });
    return { agent: best.agent };
  }

  /** Records an allocated slot, even on an agent that has not registered yet. */
  restore(key: string, namespace: string, agent: string, claims: SlotClaims, holder?: string): void {
    const id = idOf(namespace, agent);
    const isPresent = this.#slots.get(key)?.agent === id;
    if (!isPresent) this.release(key);
    this.#slots.set(key, { agent: id, holder });
    if (isPresent) return;
    const slots = this.#slotsOf(id);
    if (slots === undefined) this.#unregistered.set(id, new Map([[key, claims]]));
    else slots.set(key, claims);
  }

  /** Frees the slot of a sandbox, if it has one. With `holder`, only if that sandbox still holds it. */
  release(key: string, holder?: string): void {
    const slot = this.#slots.get(key);
    if (slot === undefined || (holder !== undefined && slot.holder !== holder)) return;
    const id = slot.agent;
    this.#slots.delete(key);
    this.#slotsOf(id)?.delete(key);
    const entry = this.#agents.get(id);
    if (entry !== undefined) this.#onRelease(entry.agent);
  }

  /**
   * Frees the slot of an object, unless a sandbox for which `isOther` is true holds it: a later one of the same name, whose object the cache
   * does not have yet.
   */
  releaseObject(key: string, isOther: (holder: string) => boolean): void {
    const holder = this.#slots.get(key)?.holder;
    if (holder === undefined || !isOther(holder)) this.release(key);
  }

  /** The name of the agent that holds the slot of a sandbox. */
  agentOf(key: string): string | undefined {
    return this.#slots.get(key)?.agent.split("/")[1];
  }

  agent(namespace: string, name: string): RegisteredAgent | undefined {
    return this.#agents.get(idOf(namespace, name))?.agent;
  }

  agents(): readonly RegisteredAgent[] {
    return [...this.#agents.values()].map(({ agent }) => agent);
  }

  /** The number of allocated slots of an agent. */
  allocated(namespace: string, name: string): number {
    return this.#slotsOf(idOf(namespace, name))?.size ?? 0;
  }

  #slotsOf(id: string): Map<string, SlotClaims> | undefined {
    return this.#agents.get(id)?.sandboxes ?? this.#unregistered.get(id);
  }

  /** Why an agent cannot take a sandbox with these ports. */
  #findRejection(
    { agent, sandboxes }: AgentEntry,
    wanted: SlotClaims,
    except: ReadonlySet<string> | undefined,
  ): Rejection | undefined {
    if (!agent.isReady || this.#draining.has(idOf(agent.namespace, agent.name))) return "notReady";
    if (except?.has(agent.name)) return "refused";
    if (sandboxes.size >= agent.capacity) return "full";
    return findConflict(sandboxes, wanted);
  }
}

/** Why an agent cannot take a sandbox. */
type Rejection = "full" | "ports" | "volumes" | "notReady" | "refused";

const idOf = (namespace: string, name: string): string => `${namespace}/${name}`;

function findConflict(
  sandboxes: ReadonlyMap<string, SlotClaims>,
  { ports, volumes = [] }: SlotClaims,
): "ports" | "volumes" | undefined {
  if (ports.length === 0 && volumes.length === 0) return undefined;
  for (const other of sandboxes.values()) {
    if (other.ports.some((port) => ports.includes(port))) return "ports";
    const isTaken = (volume: VolumeReference): boolean =>
      other.volumes?.some((each) => each.name === volume.name && isExclusive(each, volume)) === true;
    if (volumes.some(isTaken)) return "volumes";
  }
  return undefined;
}

const rejectionTexts: Readonly<Record<Rejection, string>> = {
  full: "full",
  ports: "with a port conflict",
  volumes: "whose volumes are in use",
  notReady: "not ready",
  refused: "that rejected it",
};

function explainFullPool(pool: string, rejections: Readonly<Record<Rejection, number>>): string {
  const kinds: readonly Rejection[] = ["full", "ports", "volumes", "notReady", "refused"];
  const parts = kinds.filter((kind) => rejections[kind] > 0).map((kind) => `${rejections[kind]} ${rejectionTexts[kind]}`);
  if (parts.length === 0) return `no free slot: pool ${pool} has no agents`;
  return `no free slot in pool ${pool}: ${parts.join(", ")}`;
}

/** Why the agent with the volumes of a sandbox cannot take it. */
function explainAgent(
  agent: string,
  volumes: readonly VolumeReference[] = [],
  rejections: Readonly<Record<Rejection, number>>,
): string {
  const reasons: Readonly<Record<Rejection, string>> = {
    full: "has no free slot",
    ports: "has a port conflict",
    volumes: "has another sandbox that uses them",
    notReady: "is not ready",
    refused: "rejected the sandbox",
  };
  const kinds: readonly Rejection[] = ["full", "ports", "volumes", "notReady", "refused"];
  const reason = reasons[kinds.find((kind) => rejections[kind] > 0) ?? "notReady"];
  return `agent ${agent}, which has the volumes ${volumes.map(({ name }) => name).join(", ")}, ${reason}`;
}
