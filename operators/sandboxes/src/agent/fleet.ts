import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery";
import type { Logger } from "@keelson/controller";
import { createBubblewrapDriver, createProcessDriver, type Driver } from "@keelson/execution";
import type { AgentAddress } from "./agent-client.ts";
import { startAgentServer } from "./agent-server.ts";
import type { ImageStore } from "./image-store.ts";
import { createSandboxManager } from "./sandbox-manager.ts";

/** Which agent is meant, and how big it is. */
export interface AgentSpec {
  readonly namespace: string;
  readonly pool: string;
  readonly name: string;
  readonly capacity: number;
}

/** An agent that was made. */
export interface FleetAgent extends AgentSpec {
  readonly node: string;
  /** Address that its sandboxes listen on. */
  readonly address: string;
  /** Where its API is; absent while it starts. */
  readonly api?: AgentAddress;
}

/**
 * Where agents come from: Pods in a cluster, or this process on one machine. Whoever uses it cannot tell which.
 */
export interface Fleet {
  /** Makes an agent; nothing where it is there. */
  ensure(spec: AgentSpec): Promise<void>;
  /** Ends an agent and everything that it runs. */
  remove(namespace: string, name: string): Promise<void>;
  list(): readonly FleetAgent[];
  /** Calls `listener` when an agent came, went or changed its address. */
  onChange(listener: () => void): () => void;
  /** Ends the agents' APIs; what they run goes on. */
  close(): Promise<void>;
}

/** Options of {@link createLocalFleet}. */
export interface LocalFleetOptions {
  readonly dir: string;
  readonly token: string;
  readonly driver: "bubblewrap" | "process";
  readonly images: ImageStore;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

interface LocalAgent {
  readonly agent: FleetAgent;
  readonly driver: Driver;
  close(): Promise<void>;
}

const nodeName = "local";
const loopback = "127.0.0.1";

/**
 * Agents in this process, each with a driver of its own below `dir` and an API on a free loopback port. Agents that are found in
 * `dir` (namespace.pool.name, capacity in the name) are here again with what they ran.
 */
export async function createLocalFleet(options: LocalFleetOptions): Promise<Fleet> {
  const { dir, token, clock, log, random } = options;
  const agents = new Map<string, Promise<LocalAgent> | LocalAgent>();
  const listeners = new Set<() => void>();
  const changed = (): void => {
    for (const listener of listeners) listener();
  };
  const folderOf = ({ namespace, pool, name, capacity }: AgentSpec): string =>
    join(dir, [namespace, pool, name, capacity].join("_"));

  async function start(spec: AgentSpec): Promise<LocalAgent> {
    const driverOptions = { dir: join(folderOf(spec), "programs"), clock, random };
    const driver = await (options.driver === "bubblewrap"
      ? createBubblewrapDriver(driverOptions)
      : createProcessDriver(driverOptions));
    const manager = createSandboxManager({
      agentId: spec.name,
      nodeName,
      capacity: spec.capacity,
      driver,
      images: options.images,
      clock,
    });
    const server = await startAgentServer({ manager, token, port: 0, bindAddress: loopback, clock, log });
    return {
      agent: { ...spec, node: nodeName, address: loopback, api: { url: server.url, token } },
      driver,
      async close() {
        await server.close();
        await driver.close();
      },
    };
  }

  const fleet: Fleet = {
    async ensure(spec) {
      const id = `${spec.namespace}/${spec.name}`;
      const present = agents.get(id);
      if (present !== undefined) return void (await present);
      await mkdir(folderOf(spec), { recursive: true, mode: 0o711 });
      const starting = start(spec);
      agents.set(id, starting);
      try {
        agents.set(id, await starting);
      } catch (error) {
        agents.delete(id);
        throw error;
      }
      changed();
    },
    async remove(namespace, name) {
      const id = `${namespace}/${name}`;
      const found = await agents.get(id);
      if (found === undefined) return;
      agents.delete(id);
      changed();
      await Promise.all(found.driver.list().map((program) => program.stop()));
      await found.close();
      await rm(folderOf(found.agent), { recursive: true, force: true });
    },
    list: () => [...agents.values()].flatMap((each) => (each instanceof Promise ? [] : [each.agent])),
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async close() {
      for (const each of agents.values()) await (await each).close();
      agents.clear();
    },
  };

  await mkdir(dir, { recursive: true, mode: 0o711 });
  for (const folder of await readdir(dir)) {
    const [namespace = "", pool = "", name = "", capacity = ""] = folder.split("_");
    if (!/^\d+$/.test(capacity)) continue;
    await fleet.ensure({ namespace, pool, name, capacity: Number(capacity) });
  }
  return fleet;
}
