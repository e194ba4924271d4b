import type { AgentCalls } from "../agent/agent-calls.ts";
import type { Call, CallResult } from "../controllers/effect.ts";
import type { Role } from "../controllers/group/observation.ts";
import { hasVersion } from "../plugin/plugin.ts";

/** What a volume keeps. */
export interface SimulatedVolume {
  role?: "primary" | "replica";
  primaryHost?: string;
  epoch: number;
  isFenced?: boolean;
  /** How many writes it has. There is one writer, so that less than were acknowledged is a loss. */
  writes: number;
}

/** A program in a Pod, with its agent. */
interface Server {
  readonly ip: string;
  readonly pod: string;
  readonly volume: SimulatedVolume;
  readonly version: string;
  configHash: string;
  parameters: Readonly<Record<string, string>>;
  isLinked: boolean;
  isStopped: boolean;
}

/** Something that a program did and that a test counts. */
export interface Deed {
  readonly pod: string;
  readonly deed: "starts" | "stops" | "reloads" | "promoted";
}

/** Programs that replicate as Redis does, and a client that writes to them all the time. */
export interface SimulatedRedis {
  readonly agents: AgentCalls;
  readonly deeds: Deed[];
  /** How many writes the servers of a Group acknowledged. */
  acknowledgedBy(group: string): number;
  start(server: {
    readonly ip: string;
    readonly pod: string;
    readonly volume: SimulatedVolume;
    readonly version: string;
    readonly configHash: string;
    readonly parameters: Readonly<Record<string, string>>;
  }): void;
  end(ip: string): void;
  /** One round of what programs do by themselves: links come up and data flows. Answers whether anything changed. */
  work(): boolean;
  /** The client writes to each Group once, where a primary takes it. Throws where two do. */
  write(): void;
  /** How many writes the server of a Pod has. */
  writesOf(pod: string): number;
  /** Makes agents refuse or not answer. */
  answers: (call: Call, pod: string) => CallResult | undefined;
}

/** Parameters that the program wants a restart for. */
const cold = new Set(["databases", "io-threads"]);

/** Makes {@link SimulatedRedis}. `act` surrounds what an agent is asked to do. */
export function createSimulatedRedis(act: <T>(name: string, perform: () => T) => T): SimulatedRedis {
  const servers = new Map<string, Server>();
  const watches = new Map<string, Set<() => void>>();
  const deeds: Deed[] = [];
  const acknowledged = new Map<string, number>();

  const tell = (ip: string): void => {
    for (const onChange of watches.get(ip) ?? []) onChange();
  };
  const up = (ip: string): Server | undefined => {
    const server = servers.get(ip);
    return server?.isStopped === true ? undefined : server;
  };
  const byPod = (pod: string): Server | undefined => [...servers.values()].find((server) => server.pod === pod);

  function perform(server: Server, call: Call): CallResult {
    const { volume } = server;
    switch (call.method) {
      case "GetGroupOrder":
        return { kind: "order", order: [...call.groups].reverse() };
      case "GetPodOrder":
        return { kind: "order", order: [...call.pods].reverse().sort((a, b) => rank(call.roles[a]) - rank(call.roles[b])) };
      case "ReloadConfig": {
        if (server.configHash === call.hash) return { kind: "done" };
        const needs = Object.keys(call.parameters).filter(
          (name) => cold.has(name) && server.parameters[name] !== call.parameters[name],
        );
        if (needs.length > 0) return { kind: "restart", parameters: needs };
        if (call.parameters.maxmemory === "nonsense")
          return { kind: "refused", message: "maxmemory nonsense: argument must be a memory value" };
        server.configHash = call.hash;
        server.parameters = call.parameters;
        deeds.push({ pod: server.pod, deed: "reloads" });
        return { kind: "done" };
      }
      case "AssignRole": {
        if (volume.role !== undefined && call.epoch < volume.epoch) return { kind: "refused", message: "an old epoch" };
        if (call.role === "primary" && volume.role !== "primary") deeds.push({ pod: server.pod, deed: "promoted" });
        Object.assign(volume, { role: call.role, epoch: call.epoch, primaryHost: call.primary, isFenced: false });
        server.isLinked = false;
        return { kind: "done" };
      }
      case "Failover": {
        if (volume.role === "replica")
          return volume.primaryHost === call.target ? { kind: "done" } : { kind: "refused", message: "this is a replica" };
        const target = up(call.target);
        if (target === undefined || !target.isLinked) return { kind: "refused", message: "the target is not in sync" };
        target.volume.writes = volume.writes;
        Object.assign(target.volume, { role: "primary", epoch: call.epoch, primaryHost: call.target });
        deeds.push({ pod: target.pod, deed: "promoted" });
        for (const ip of [server.ip, ...call.others]) {
          const other = up(ip);
          if (other === undefined) continue;
          Object.assign(other.volume, { role: "replica", epoch: call.epoch, primaryHost: call.target });
          other.isLinked = false;
        }
        return { kind: "done" };
      }
      case "Stop":
        server.isStopped = true;
        deeds.push({ pod: server.pod, deed: "stops" });
        return { kind: "done" };
    }
  }

  const redis: SimulatedRedis = {
    deeds,
    acknowledgedBy: (group) => acknowledged.get(group) ?? 0,
    answers: () => undefined,
    agents: {
      async call(ip, _token, call) {
        const server = up(ip);
        if (server === undefined) return { kind: "unreachable", message: "connection refused" };
        return act(`${call.method} ${server.pod}`, () => {
          const given = redis.answers(call, server.pod);
          if (given !== undefined) return given;
          const result = perform(server, call);
          tell(ip);
          return result;
        });
      },
      async role(ip): Promise<Role | undefined> {
        const server = up(ip);
        if (server === undefined) return undefined;
        const { role, primaryHost } = server.volume;
        return {
          role: role ?? "unassigned",
          isInSync: role !== "replica" || server.isLinked,
          configHash: server.configHash,
          version: server.version,
          ...(role === "replica" && primaryHost !== undefined ? { primaryHost } : {}),
        };
      },
      watch(ip, _token, onChange, signal) {
        const all = watches.get(ip) ?? new Set();
        watches.set(ip, all.add(onChange));
        signal.addEventListener("abort", () => all.delete(onChange));
        if (up(ip) !== undefined) onChange();
      },
      close: () => undefined,
    },
    start(server) {
      const { ip, pod, volume } = server;
      deeds.push({ pod, deed: "starts" });
      servers.set(ip, { ...server, isLinked: false, isStopped: false });
      // A server that was the primary has another address now, and is it still.
      if (volume.role === "primary") volume.primaryHost = ip;
      tell(ip);
    },
    end(ip) {
      servers.delete(ip);
      tell(ip);
    },
    work() {
      let hasChanged = false;
      for (const server of servers.values()) {
        const { volume } = server;
        if (server.isStopped || volume.role !== "replica") continue;
        const primary = up(volume.primaryHost ?? "");
        // A newer primary's data cannot be read by an older replica.
        const canRead =
          primary?.volume.role === "primary" &&
          (hasVersion([primary.version], server.version) || server.version > primary.version);
        if (server.isLinked !== canRead) {
          server.isLinked = canRead;
          hasChanged = true;
          tell(server.ip);
        }
        // A full copy: what only the replica has goes away.
        if (canRead) volume.writes = primary.volume.writes;
      }
      return hasChanged;
    },
    write() {
      const takers = [...servers.values()].filter(
        (server) => !server.isStopped && server.volume.role === "primary" && server.volume.isFenced !== true,
      );
      const groups = takers.map((server) => groupOf(server.pod));
      if (new Set(groups).size < groups.length)
        throw new Error(`two primaries take writes: ${takers.map(({ pod }) => pod).join()}`);
      for (const { pod, volume } of takers) {
        volume.writes += 1;
        acknowledged.set(groupOf(pod), redis.acknowledgedBy(groupOf(pod)) + 1);
      }
    },
    writesOf: (pod) => byPod(pod)?.volume.writes ?? 0,
  };
  return redis;
}

const groupOf = (pod: string): string => pod.replace(/-\d+$/, "");

const rank = (role: string | undefined): number => Number(role === "primary");
