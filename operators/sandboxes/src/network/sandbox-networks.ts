import { closeSync, openSync, readdirSync } from "node:fs";
import { getServers } from "node:dns";
import { join } from "node:path";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { type DeniedFlows, parseDeniedFlows } from "./denied-flows.ts";
import { type DnsGate, startDnsGate } from "./dns-gate.ts";
import { allowAddresses, tableOf } from "./firewall-rules.ts";
import type { NetworkPolicy } from "./network-policy.ts";
import {
  createNetwork,
  moveNetwork,
  namespacePath,
  networkSupportProblem,
  readNetwork,
  removeNetwork,
  resolverFile,
  run,
  type SandboxNetwork,
} from "./sandbox-network.ts";

/** Options of {@link SandboxNetworks}. */
export interface SandboxNetworksOptions {
  /** Directory with one directory per network. */
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Name servers to forward to. Default: the host's. */
  readonly dnsServers?: readonly string[];
}

/** What a sandbox's program needs of its network. */
export interface ReadyNetwork {
  /** Path of the network namespace while this process runs. Valid in every mount namespace, such as containerd's. */
  readonly namespace: string;
  /** File for `/etc/resolv.conf`. */
  readonly resolver: string;
}

/** Interval at which denied flows are counted, while there are networks. */
const denialIntervalMs = 5000;

/** Names in a sandbox's list of denied destinations. */
const maxNames = 16;

/** The denials of one sandbox. */
interface Denials {
  /** Counted by the firewall. */
  flows: DeniedFlows;
  /** Counted by the resolver. */
  nameCount: number;
  readonly names: Set<string>;
  /** What listeners know. */
  reportedCount: number;
}

interface OpenNetwork {
  readonly network: SandboxNetwork;
  readonly gate: DnsGate;
}

/** The networks of an agent's sandboxes with `internet` or `allowList`. */
export class SandboxNetworks {
  readonly #options: SandboxNetworksOptions;
  readonly #open = new Map<string, OpenNetwork>();
  /** Kept until the sandbox is deleted. */
  readonly #denials = new Map<string, Denials>();
  /** Descriptors of network namespaces: a program joins its own some time after its driver has started it. */
  readonly #descriptors = new Map<string, number>();
  readonly #removals = new Map<string, Promise<void>>();
  readonly #listeners = new Set<() => void>();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(options: SandboxNetworksOptions) {
    this.#options = options;
  }

  /** Why sandboxes cannot have a network on this machine; undefined if they can. */
  get problem(): string | undefined {
    return networkSupportProblem();
  }

  /** Creates the network of a sandbox. Rejects, leaving nothing behind, if it cannot. */
  async create(id: string, policy: NetworkPolicy): Promise<ReadyNetwork> {
    const folder = this.#folder(id);
    // Left by an agent that was killed while it created it.
    await removeNetwork(folder, (await readNetwork(folder, this.#options.log)) ?? { namespace: `keelson-${id}` });
    const network = await createNetwork(id, folder, policy);
    try {
      await this.#serve(id, network);
    } catch (error) {
      await removeNetwork(folder, network);
      throw error;
    }
    // The name below /run/netns is a mount, which only this process's mount namespace has.
    const descriptor = openSync(namespacePath(network), "r");
    this.#descriptors.set(id, descriptor);
    return { namespace: `/proc/${process.pid}/fd/${descriptor}`, resolver: resolverFile(folder) };
  }

  /** Gives the network of a sandbox, if it has one, to a container whose process `pid` has the namespaces. */
  async connect(id: string, pid: number): Promise<void> {
    const network = this.#open.get(id)?.network;
    if (network !== undefined) await moveNetwork(network, pid);
  }

  /** Serves the networks of running sandboxes after a restart of the agent, and removes all others. */
  async adopt(ids: ReadonlySet<string>): Promise<void> {
    for (const id of listFolders(this.#options.dir)) {
      const folder = this.#folder(id);
      const network = await readNetwork(folder, this.#options.log);
      if (network !== undefined && ids.has(id)) await this.#serve(id, network);
      else await removeNetwork(folder, network ?? { namespace: `keelson-${id}` });
    }
  }

  /** Removes the network of a sandbox, if it has one. Its denied flows are kept until {@link forget}. */
  remove(id: string): Promise<void> {
    const present = this.#removals.get(id);
    if (present !== undefined) return present;
    const open = this.#open.get(id);
    if (open === undefined) return Promise.resolve();
    this.#open.delete(id);
    this.#release(id);
    const removal = (async () => {
      await open.gate.stop();
      await this.#count(id, open.network);
      await removeNetwork(this.#folder(id), open.network);
    })()
      .catch((error: unknown) => this.#options.log.warn({ err: error, sandboxId: id }, "could not remove a network"))
      .finally(() => this.#removals.delete(id));
    this.#removals.set(id, removal);
    return removal;
  }

  /** The denied flows of a sandbox; undefined if it never had a network. */
  denied(id: string): DeniedFlows | undefined {
    const denials = this.#denials.get(id);
    if (denials === undefined) return undefined;
    const { flows, nameCount, names } = denials;
    return { count: flows.count + nameCount, destinations: [...flows.destinations, ...names] };
  }

  /** Removes the network of a sandbox and its denied flows. */
  async forget(id: string): Promise<void> {
    await this.remove(id);
    this.#denials.delete(id);
  }

  /** Calls `listener` when the number of denied flows has changed. */
  onDenied(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Stops resolvers and counting; networks stay for the next agent. Waits for removals. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const id of [...this.#descriptors.keys()]) this.#release(id);
    await Promise.all([...this.#open.values()].map(({ gate }) => gate.stop()));
    await Promise.all(this.#removals.values());
  }

  #release(id: string): void {
    const descriptor = this.#descriptors.get(id);
    if (descriptor !== undefined) closeSync(descriptor);
    this.#descriptors.delete(id);
  }

  #folder(id: string): string {
    return join(this.#options.dir, id);
  }

  async #serve(id: string, network: SandboxNetwork): Promise<void> {
    const { clock, dnsServers = getServers() } = this.#options;
    const denials: Denials = {
      flows: { count: 0, destinations: [] },
      nameCount: 0,
      names: new Set(),
      reportedCount: 0,
    };
    const gate = await startDnsGate({
      address: network.gateway,
      policy: network.policy,
      servers: dnsServers,
      clock,
      admit: async (addresses, rules, seconds) =>
        void (await run("nft", ["-f", "-"], allowAddresses(tableOf(network), addresses, rules, seconds))),
      onDenied: (name) => {
        denials.nameCount += 1;
        if (denials.names.size < maxNames) denials.names.add(name);
      },
    });
    this.#denials.set(id, denials);
    this.#open.set(id, { network, gate });
    this.#schedule();
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#isClosed || this.#open.size === 0) return;
    this.#timer = this.#options.clock.setTimer(denialIntervalMs, () => void this.#countAll(), { background: true });
  }

  async #countAll(): Promise<void> {
    let hasChanged = false;
    for (const [id, { network }] of this.#open) hasChanged = (await this.#count(id, network)) || hasChanged;
    this.#timer = undefined;
    this.#schedule();
    if (hasChanged) for (const listener of this.#listeners) listener();
  }

  /** Reads the counters of a sandbox. Returns whether they have changed since the last time. */
  async #count(id: string, network: SandboxNetwork): Promise<boolean> {
    const denials = this.#denials.get(id);
    // Fails if the network is being removed.
    const text = await run("nft", ["--json", "list", "table", "inet", tableOf(network)]).catch(() => undefined);
    if (denials === undefined || text === undefined) return false;
    denials.flows = parseDeniedFlows(text);
    const count = denials.flows.count + denials.nameCount;
    const hasChanged = count !== denials.reportedCount;
    denials.reportedCount = count;
    return hasChanged;
  }
}

/** Removes all networks of an agent that no longer exists. */
export async function removeNetworks(dir: string, log: Logger): Promise<void> {
  for (const id of listFolders(dir)) {
    const folder = join(dir, id);
    await removeNetwork(folder, (await readNetwork(folder, log)) ?? { namespace: `keelson-${id}` });
  }
}

function listFolders(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
