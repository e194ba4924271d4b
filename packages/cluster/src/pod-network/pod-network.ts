import { existsSync, readdirSync } from "node:fs";
import { rm, statfs } from "node:fs/promises";
import type { Logger } from "@keelson/controller";
import { ClusterError } from "../cluster-error.ts";
import { runCommand, runIp, writeParameters } from "./network-commands.ts";
import {
  namespacePath,
  namespacesDirectory,
  type NetworkNames,
  networkNames,
  podLink,
  podNamespace,
  podOfNamespace,
} from "./network-names.ts";

/** The next hop of Pods: the same in every Pod, an address of no interface with a fixed link address. */
const nextHop = { address: "169.254.1.1", link: "ee:ee:ee:ee:ee:ee" } as const;

/** Kernel parameters of a Pod, as container runtimes set them: programs without privileges may use every port and ping. */
const podParameters = { "net/ipv4/ip_unprivileged_port_start": "0", "net/ipv4/ping_group_range": "0 2147483647" };

/** Options of {@link PodNetwork.open}. */
export interface PodNetworkOptions {
  /** The data directory that the network belongs to. */
  readonly dataDir: string;
  /** The first two octets of addresses of Pods, and of Services. */
  readonly podNetwork: string;
  readonly serviceNetwork: string;
  readonly log: Logger;
}

/**
 * A network namespace for each Pod, and one that routes between them:
 *
 *     Pod namespace      router namespace          machine
 *     eth0 10.P.x.y/32 - p<hash>    uplink 10.P.255.253 - kl<hash> 10.P.255.254
 *
 * Pods have addresses without a common link, so every packet passes the router, where nftables forwards connections to Services (see
 * `service-rules.ts`). The machine's own configuration gets one link, two routes and one table. Namespaces outlive this process, like the
 * programs in them, and are found again by their names. Needs root, `ip` and `nft`.
 */
export class PodNetwork {
  readonly names: NetworkNames;
  readonly #log: Logger;
  readonly #attached = new Set<string>();

  private constructor(names: NetworkNames, log: Logger) {
    this.names = names;
    this.#log = log;
  }

  /** Opens the network of a data directory, creating what is missing. Rejects with a ClusterError. */
  static async open({ dataDir, podNetwork, serviceNetwork, log }: PodNetworkOptions): Promise<PodNetwork> {
    const network = new PodNetwork(networkNames(dataDir, podNetwork, serviceNetwork), log);
    await network.#createRouter();
    return network;
  }

  /** The path of a Pod's namespace, for its programs. */
  path(podUid: string): string {
    return namespacePath(podNamespace(this.names, podUid));
  }

  /** Gives a Pod its namespace and address. Does nothing if it has them. Rejects with a ClusterError. */
  async attach(podUid: string, address: string, parameters: Readonly<Record<string, string>> = {}): Promise<void> {
    if (this.#attached.has(podUid)) return;
    const { router } = this.names;
    const [namespace, link] = [podNamespace(this.names, podUid), podLink(podUid)];
    await addNamespace(namespace);
    if (!(await hasLink(router, link))) {
      await runIp(router, [`link add ${link} address ${nextHop.link} type veth peer name eth0 netns ${namespace}`]);
    }
    // Repeated, in case an earlier attempt was interrupted.
    await runIp(router, [`link set ${link} up`, `route replace ${address}/32 dev ${link}`]);
    await runIp(namespace, [
      "link set lo up",
      `address replace ${address}/32 dev eth0`,
      "link set eth0 up",
      `neighbour replace ${nextHop.address} lladdr ${nextHop.link} dev eth0 nud permanent`,
      `route replace default via ${nextHop.address} dev eth0 onlink`,
    ]);
    await writeParameters(namespace, { ...podParameters, ...parameters });
    this.#attached.add(podUid);
  }

  /** Removes a Pod's namespace. Its links disappear with it once its last program has exited. */
  async detach(podUid: string): Promise<void> {
    this.#attached.delete(podUid);
    const namespace = podNamespace(this.names, podUid);
    if (!existsSync(namespacePath(namespace))) return;
    // Otherwise the address remains reachable for as long as a program lives.
    await runIp(this.names.router, [`link delete ${podLink(podUid)}`]).catch(() => {});
    await runCommand(["ip", "netns", "delete", namespace]);
  }

  /** Removes the namespaces of Pods for which `isKept` is false. Failures are logged. */
  async detachOthers(isKept: (podUid: string) => boolean): Promise<void> {
    for (const podUid of this.#pods()) {
      if (isKept(podUid)) continue;
      try {
        await this.detach(podUid);
      } catch (error) {
        this.#log.warn({ err: error, podUid }, "could not remove the network namespace of a deleted pod");
      }
    }
  }

  /** Removes the network if no Pod uses it. Otherwise it stays, for the Pods' programs and the next start. */
  async close(): Promise<void> {
    if (this.#pods().length > 0) return;
    const { router, link, table } = this.names;
    try {
      await runCommand(["nft", "-f", "-"], `table ip ${table} {}\ndelete table ip ${table}\n`);
      if (await hasLink(undefined, link)) await runIp(undefined, [`link delete ${link}`]);
      await runCommand(["ip", "netns", "delete", router]);
    } catch (error) {
      this.#log.warn({ err: error }, "could not remove the network of Pods");
    }
  }

  #pods(): readonly string[] {
    const all = existsSync(namespacesDirectory) ? readdirSync(namespacesDirectory) : [];
    return all.flatMap((name) => podOfNamespace(this.names, name) ?? []);
  }

  async #createRouter(): Promise<void> {
    const { router, link, nodeAddress, routerAddress, pods, services } = this.names;
    for (const network of [pods, services]) {
      assertUnused(network, link, await runCommand(["ip", "route", "show", network]));
    }
    await addNamespace(router);
    if (!(await hasLink(undefined, link))) {
      await runIp(undefined, [`link add ${link} type veth peer name uplink netns ${router}`]);
    }
    await runIp(undefined, [
      `address replace ${nodeAddress} peer ${routerAddress} dev ${link}`,
      `link set ${link} up`,
      `route replace ${pods} via ${routerAddress} dev ${link} src ${nodeAddress}`,
      `route replace ${services} via ${routerAddress} dev ${link} src ${nodeAddress}`,
    ]);
    // The API server listens on loopback, and connections to node ports there are forwarded.
    await writeParameters(undefined, { [`net/ipv4/conf/${link}/route_localnet`]: "1" });
    await runIp(router, [
      "link set lo up",
      `address replace ${routerAddress} peer ${nodeAddress} dev uplink`,
      "link set uplink up",
      `route replace default via ${nodeAddress} dev uplink`,
      // Addresses without a Pod must not return to the machine.
      `route replace unreachable ${pods}`,
    ]);
    await writeParameters(router, { "net/ipv4/ip_forward": "1" });
  }
}

/**
 * Throws a ClusterError if the machine has a route to a network through another link: that of another data directory whose Pods still
 * run, or of a container engine. `routes` is the output of `ip route show`.
 */
export function assertUnused(network: string, link: string, routes: string): void {
  const used = routes.split("\n").find((route) => {
    const words = route.trim().split(/\s+/);
    return words.length > 1 && words[words.indexOf("dev") + 1] !== link;
  });
  if (used === undefined) return;
  throw new ClusterError(
    "CommandFailed",
    `${network}: in use by another network (${used.trim()}): remove it, or use another --data-dir`,
  );
}

/** The type of the kernel's file system of namespaces (linux/magic.h). */
const nsfsType = 0x6e736673;

/** Adds a network namespace, unless it exists. A file of its name that is none is left from an interrupted attempt. */
async function addNamespace(name: string): Promise<void> {
  const path = namespacePath(name);
  if (existsSync(path)) {
    if ((await statfs(path)).type === nsfsType) return;
    await rm(path);
  }
  await runCommand(["ip", "netns", "add", name]);
}

async function hasLink(namespace: string | undefined, link: string): Promise<boolean> {
  const where = namespace === undefined ? [] : ["-n", namespace];
  return runCommand(["ip", ...where, "link", "show", "dev", link]).then(
    () => true,
    () => false,
  );
}
