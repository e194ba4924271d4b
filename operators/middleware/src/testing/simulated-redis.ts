import type { AgentClient } from "../agent/agent-client.ts";
import type { Call, CallResult } from "../controllers/effect.ts";
import type { Role } from "../controllers/group/observation.ts";
import { hasVersion } from "../plugin/plugin.ts";
import type { RedisState, SimulatedCommand, SimulatedServer, SimulatedVolume } from "./redis-state.ts";

/** Simulated programs that replicate like Redis, and a client that writes continuously. */
export interface SimulatedRedis {
  readonly agents: AgentClient;
  readonly commands: readonly SimulatedCommand[];
  /** Version of the installed program, whatever the image says. */
  installedVersion: string | undefined;
  /** Number of writes that a Group acknowledged. */
  acknowledgedBy(group: string): number;
  /** Starts the program of a Pod with the Pod's volume, which is empty at first. */
  start(server: {
    readonly ip: string;
    readonly pod: string;
    readonly version: string;
    readonly configHash: string;
    readonly parameters: Readonly<Record<string, string>>;
  }): void;
  end(ip: string): void;
  /** One round of replication: links come up and data flows. Returns whether anything changed. */
  work(): boolean;
  /** Writes once to each Group that has a writable primary. Throws if a Group has two. */
  write(): void;
  /** Number of writes on a Pod. */
  writesOf(pod: string): number;
  /** Kills the program and the agent of a Pod. Its container is restarted by `restart`. */
  kill(pod: string): void;
  /** Restarts the container of a killed Pod. `lose`: it has lost its keys, or its whole volume. */
  restart(pod: string, lose?: "keys" | "volume"): void;
  /** Freezes the program and the agent of a Pod, until `thaw`. */
  freeze(pod: string): void;
  thaw(pod: string): void;
  /** Overrides the response of an agent. */
  answers: (call: Call, pod: string) => CallResult | undefined;
}

/** Parameters that require a restart. */
const cold = new Set(["databases", "io-threads"]);

/** Creates a {@link SimulatedRedis} that starts in this state and changes it. `act` wraps every call to an agent. */
export function createSimulatedRedis(act: <T>(name: string, perform: () => T) => T, state: RedisState): SimulatedRedis {
  const { servers, volumes, commands, acknowledged } = state;
  const watches = new Map<string, Set<() => void>>();

  const notify = (ip: string): void => {
    for (const onChange of watches.get(ip) ?? []) onChange();
  };
  const up = (ip: string): SimulatedServer | undefined => {
    const server = servers.get(ip);
    return server?.isStopped === true || server?.isFrozen === true ? undefined : server;
  };
  const byPod = (pod: string): SimulatedServer | undefined => [...servers.values()].find((server) => server.pod === pod);

  function takeOver(server: SimulatedServer, call: Extract<Call, { method: "Failover" }>): CallResult {
    const { volume } = server;
    if (server.isIsolated) return { kind: "refused", message: "restarted" };
    const old = servers.get(volume.primaryHost ?? "");
    if (volume.role === "replica" && old !== undefined && !old.isStopped && call.isPrimaryDown !== true) {
      if (old.isFrozen) return { kind: "refused", message: "the primary does not respond", mustTerminate: true };
      if (!old.isIsolated && old.volume.role === "primary") {
        old.volume.isFenced = true;
        volume.writes = old.volume.writes;
      }
    }
    if (volume.role !== "primary") commands.push({ pod: server.pod, command: "promoted" });
    Object.assign(volume, { role: "primary", epoch: call.epoch, primaryHost: server.ip, isFenced: false });
    for (const ip of call.others) {
      const other = up(ip);
      if (other !== undefined && !other.isIsolated) Object.assign(other.volume, { primaryHost: server.ip });
    }
    return { kind: "done" };
  }

  function perform(server: SimulatedServer, call: Call): CallResult {
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
        commands.push({ pod: server.pod, command: "reloads" });
        return { kind: "done" };
      }
      case "AssignRole": {
        if (volume.role !== undefined && call.epoch < volume.epoch) return { kind: "refused", message: "the epoch is too old" };
        if (call.role === "primary" && volume.role !== "primary") commands.push({ pod: server.pod, command: "promoted" });
        Object.assign(volume, { role: call.role, epoch: call.epoch, primaryHost: call.primary, isFenced: false });
        server.isLinked = false;
        server.isIsolated = false;
        return { kind: "done" };
      }
      case "Failover": {
        if (call.target === server.ip) return takeOver(server, call);
        if (server.isIsolated) return { kind: "refused", message: "restarted" };
        if (volume.role === "replica")
          return volume.primaryHost === call.target ? { kind: "done" } : { kind: "refused", message: "this is a replica" };
        const target = up(call.target);
        if (target === undefined || !target.isLinked) return { kind: "refused", message: "the target is not in sync" };
        target.volume.writes = volume.writes;
        Object.assign(target.volume, { role: "primary", epoch: call.epoch, primaryHost: call.target });
        commands.push({ pod: target.pod, command: "promoted" });
        for (const ip of [server.ip, ...call.others]) {
          const other = up(ip);
          if (other === undefined) continue;
          Object.assign(other.volume, { role: "replica", epoch: call.epoch, primaryHost: call.target });
          other.isLinked = false;
        }
        return { kind: "done" };
      }
      case "SetMembers":
        volume.members = call.key;
        return { kind: "done" };
      case "SetCredentials":
      case "SetTokens":
        return { kind: "done" };
      case "Stop":
        server.isStopped = true;
        commands.push({ pod: server.pod, command: "stops" });
        return { kind: "done" };
      default:
        return { kind: "refused", message: `the program has no ${call.method}` };
    }
  }

  const redis: SimulatedRedis = {
    commands,
    installedVersion: undefined,
    acknowledgedBy: (group) => acknowledged.get(group) ?? 0,
    answers: () => undefined,
    agents: {
      async call(ip, _access, call) {
        const server = up(ip);
        if (server === undefined) return { kind: "unreachable", message: "connection refused" };
        return act(`${call.method} ${server.pod}`, () => {
          const override = redis.answers(call, server.pod);
          if (override !== undefined) return override;
          const result = perform(server, call);
          notify(ip);
          return result;
        });
      },
      async role(ip): Promise<Role | undefined> {
        const server = up(ip);
        if (server === undefined) return undefined;
        const { role, primaryHost } = server.volume;
        return {
          role: role === undefined ? "unassigned" : server.isIsolated ? "recovering" : role,
          isInSync: !server.isIsolated && (role !== "replica" || server.isLinked),
          // Programs report 1 before the first sync.
          offset: server.volume.writes + 1,
          epoch: server.volume.epoch,
          keys: server.volume.writes,
          members: server.volume.members ?? "",
          configHash: server.configHash,
          version: redis.installedVersion ?? server.version,
          ...(role === "replica" && primaryHost !== undefined ? { primaryHost } : {}),
        };
      },
      metrics: () => Promise.resolve(undefined),
      watch(ip, _access, onChange, signal) {
        const all = watches.get(ip) ?? new Set();
        watches.set(ip, all.add(onChange));
        signal.addEventListener("abort", () => all.delete(onChange));
        if (up(ip) !== undefined) onChange();
      },
      close: () => undefined,
    },
    start(server) {
      const { ip, pod } = server;
      const volume: SimulatedVolume = volumes.get(pod) ?? { epoch: 0, writes: 0 };
      volumes.set(pod, volume);
      commands.push({ pod, command: "starts" });
      servers.set(ip, { ...server, volume, isLinked: false, isStopped: false, isIsolated: true, isFrozen: false });
      // A restarted primary keeps its role under its new address.
      if (volume.role === "primary") volume.primaryHost = ip;
      notify(ip);
    },
    end(ip) {
      servers.delete(ip);
      notify(ip);
    },
    work() {
      let hasChanged = false;
      for (const server of servers.values()) {
        const { volume } = server;
        if (server.isStopped || server.isFrozen || server.isIsolated || volume.role !== "replica") continue;
        const primary = up(volume.primaryHost ?? "");
        // An older replica cannot read the data of a newer primary.
        const canRead =
          primary?.volume.role === "primary" &&
          !primary.isIsolated &&
          (hasVersion([primary.version], server.version) || server.version > primary.version);
        if (server.isLinked !== canRead) {
          server.isLinked = canRead;
          hasChanged = true;
          notify(server.ip);
        }
        // A full sync: data that only the replica has is lost.
        if (canRead) volume.writes = primary.volume.writes;
      }
      return hasChanged;
    },
    write() {
      const takers = [...servers.values()].filter(
        ({ isStopped, isIsolated, isFrozen, volume }) =>
          !isStopped && !isIsolated && !isFrozen && volume.role === "primary" && volume.isFenced !== true,
      );
      const groups = takers.map((server) => groupOf(server.pod));
      if (new Set(groups).size < groups.length)
        throw new Error(`two primaries accept writes: ${takers.map(({ pod }) => pod).join()}`);
      for (const { pod, volume } of takers) {
        volume.writes += 1;
        acknowledged.set(groupOf(pod), redis.acknowledgedBy(groupOf(pod)) + 1);
      }
    },
    writesOf: (pod) => byPod(pod)?.volume.writes ?? 0,
    kill(pod) {
      const server = byPod(pod);
      if (server === undefined) return;
      server.isStopped = true;
      notify(server.ip);
    },
    restart(pod, lose) {
      const server = byPod(pod);
      if (server === undefined) return;
      if (lose !== undefined) server.volume.writes = 0;
      if (lose === "volume") {
        delete server.volume.role;
        delete server.volume.members;
        server.volume.epoch = 0;
      }
      Object.assign(server, { isStopped: false, isFrozen: false, isIsolated: true, isLinked: false });
      notify(server.ip);
    },
    freeze(pod) {
      const server = byPod(pod);
      if (server === undefined) return;
      server.isFrozen = true;
      notify(server.ip);
    },
    thaw(pod) {
      const server = byPod(pod);
      if (server === undefined) return;
      server.isFrozen = false;
      notify(server.ip);
    },
  };
  return redis;
}

const groupOf = (pod: string): string => pod.replace(/-\d+$/, "");

const rank = (role: string | undefined): number => Number(role === "primary");
