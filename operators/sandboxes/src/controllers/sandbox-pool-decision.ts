import type { DeepReadonly } from "@keelson/api-machinery";
import { defaultSandboxesPerAgent } from "../api/names.ts";
import type { Sandbox } from "../api/sandbox.ts";
import type { SandboxPool } from "../api/sandbox-pool.ts";

/** An agent of the pool. */
export interface PoolAgent {
  readonly name: string;
  /** Number of sandboxes on it, including those that are assigned but not started. */
  readonly busy: number;
  /** Its Pod is being deleted; its name is still in use. */
  readonly isEnding?: boolean;
  /** Its Pod has terminated permanently. */
  readonly isDead?: boolean;
}

/** What a pool requires in addition to slots for its sandboxes. */
export interface PoolNeeds {
  /** Names of the agents that have volumes. They are kept, and created again under the same name. */
  readonly pinned: ReadonlySet<string>;
  /** Whether a volume waits for an agent. */
  readonly isAgentWanted: boolean;
  /** Whether a create was rejected recently because no agent had a free slot. */
  readonly hasRejected?: boolean;
}

/** The changes to a pool. */
export interface PoolDecision {
  /** Desired number of agents. */
  readonly desired: number;
  /** Names of agents to create. */
  readonly create: readonly string[];
  /** Agents to remove: idle or dead ones, never one whose sandboxes may run. */
  readonly remove: readonly string[];
}

const isActive = (sandbox: DeepReadonly<Sandbox>): boolean =>
  !["Succeeded", "Failed", "Expired", "Pending"].includes(sandbox.status?.phase ?? "Pending");
const isWaiting = (sandbox: DeepReadonly<Sandbox>): boolean => (sandbox.status?.phase ?? "Pending") === "Pending";

/** Maximum number of agents: `poolMax`, and those for the bursting sandboxes that do not fit otherwise. */
function maxAgents(
  { poolMin = 0, poolMax, burstMax = 0 }: NonNullable<SandboxPool["spec"]["capacity"]>,
  demand: readonly DeepReadonly<Sandbox>[],
  slotsPerAgent: number,
): number {
  const regular = Math.max(poolMax ?? Math.max(poolMin, 1), poolMin);
  const excess = Math.max(demand.length - regular * slotsPerAgent, 0);
  const bursting = demand.filter(({ spec }) => spec.whenFull === "Burst").length;
  return regular + Math.min(burstMax, Math.ceil(Math.min(bursting, excess) / slotsPerAgent));
}

/**
 * Decides the size of a pool: slots for its active and waiting sandboxes and `bufferMin`, between `poolMin` and `poolMax`. Surplus agents
 * are removed only while idle, and only if more than `bufferMax` slots stay free without them. Sandboxes with `whenFull: Burst` raise
 * `poolMax` by up to `burstMax` agents while they do not fit otherwise. A rejected create counts as a sandbox for a while. Agents with
 * volumes are not surplus.
 */
export function decidePool(
  pool: DeepReadonly<SandboxPool>,
  sandboxes: readonly DeepReadonly<Sandbox>[],
  agents: readonly PoolAgent[],
  { pinned, isAgentWanted, hasRejected = false }: PoolNeeds = { pinned: new Set(), isAgentWanted: false },
): PoolDecision {
  const { capacity = {} } = pool.spec;
  const { poolMin = 0, bufferMin = 0 } = capacity;
  const each = pool.spec.maxSandboxesPerPod ?? defaultSandboxesPerAgent;
  const demand = sandboxes.filter((sandbox) => isActive(sandbox) || isWaiting(sandbox));
  const poolMax = maxAgents(capacity, demand, each);
  const bufferMax = Math.max(capacity.bufferMax ?? bufferMin + each, bufferMin);
  const isDeleted = pool.metadata.deletionTimestamp !== undefined;
  const need = demand.length;
  // One slot, however often its create is repeated. If that does not suffice, the next rejection requests another one.
  const rejected = hasRejected ? 1 : 0;
  const desired = isDeleted
    ? 0
    : Math.min(Math.max(Math.ceil((need + rejected + bufferMin) / each), poolMin, isAgentWanted ? 1 : 0), poolMax);

  const names = new Set(agents.map((agent) => agent.name));
  const alive = agents.filter((agent) => agent.isEnding !== true && agent.isDead !== true);
  const present = new Set(alive.map(({ name }) => name));
  // They come back under the same name once the deleted Pod is gone, also beyond the demand. Until then, their place is kept.
  const missing = isDeleted ? [] : [...pinned].filter((name) => !present.has(name)).sort();
  const create: string[] = missing.filter((name) => !names.has(name));
  const kept = missing.length - create.length;
  for (let index = 0; alive.length + kept + create.length < desired; index++) {
    const name = `${pool.metadata.name}-agent-${index}`;
    if (!names.has(name) && !create.includes(name)) create.push(name);
  }
  const remove = agents.filter((agent) => agent.isDead === true && agent.isEnding !== true).map((agent) => agent.name);
  let left = alive.length;
  // Highest number first, so that names stay low.
  for (const agent of [...alive].sort((one, other) => other.name.localeCompare(one.name, "en", { numeric: true }))) {
    if (left <= desired || agent.busy > 0 || (pinned.has(agent.name) && !isDeleted)) continue;
    const freeWithout = (left - 1) * each - need;
    if (!isDeleted && left <= poolMax && freeWithout < bufferMax) continue;
    remove.push(agent.name);
    left--;
  }
  return { desired, create, remove };
}
