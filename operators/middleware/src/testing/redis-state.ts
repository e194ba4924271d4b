/** Persistent state of a Pod. */
export interface SimulatedVolume {
  role?: "primary" | "replica";
  primaryHost?: string;
  epoch: number;
  isFenced?: boolean;
  /** Key of the members of the quorum. */
  members?: string;
  /** Number of writes. There is one writer, so fewer than acknowledged means a loss. */
  writes: number;
}

/** A program in a Pod with its agent. */
export interface SimulatedServer {
  readonly ip: string;
  readonly pod: string;
  readonly volume: SimulatedVolume;
  readonly version: string;
  configHash: string;
  parameters: Readonly<Record<string, string>>;
  isLinked: boolean;
  isStopped: boolean;
  /** Whether its role must be assigned before it serves clients and replicas. */
  isIsolated: boolean;
  /** Whether its agent and program do not respond. */
  isFrozen: boolean;
}

/** An action of a program that tests count. */
export interface SimulatedCommand {
  readonly pod: string;
  readonly command: "starts" | "stops" | "reloads" | "promoted";
}

/** Everything about {@link SimulatedRedis} that a crash of the controllers does not affect. */
export interface RedisState {
  /** By address. */
  readonly servers: Map<string, SimulatedServer>;
  /** By Pod. Servers refer to them. */
  readonly volumes: Map<string, SimulatedVolume>;
  readonly commands: SimulatedCommand[];
  /** Number of acknowledged writes by Group. */
  readonly acknowledged: Map<string, number>;
}

/** The state without any program. */
export function emptyRedisState(): RedisState {
  return { servers: new Map(), volumes: new Map(), commands: [], acknowledged: new Map() };
}
