import { isIPv4 } from "node:net";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { type Backend, backendsOf, slicesByService } from "../service-proxy/service-routes.ts";
import type { NetworkNames } from "./network-names.ts";

/** A port of the node that leads to a Pod (`hostPort`). */
export interface HostPort {
  readonly hostIP?: string;
  readonly port: number;
  readonly protocol: string;
  readonly target: Backend;
}

/** What the rules are derived from. */
export interface RuleSources {
  readonly services: Iterable<DeepReadonly<ServiceObject>>;
  readonly slices: Iterable<DeepReadonly<EndpointSliceObject>>;
  readonly hostPorts: Iterable<HostPort>;
}

/** A destination, and the backends that connections to it are distributed to. */
interface Destination {
  /** `undefined`: every address of the node. */
  readonly address: string | undefined;
  readonly protocol: string;
  readonly port: number;
  readonly backends: readonly Backend[];
  /** Whether connections of one client go to the same backend. */
  readonly isSticky: boolean;
}

/** nftables' names of the protocols that can be forwarded. */
const protocols: Readonly<Record<string, string>> = { TCP: "tcp", UDP: "udp", SCTP: "sctp" };

/** Set on connections of a Pod to itself through a Service, which must return through the router. */
export const hairpinMark = "0x4000";

/**
 * The table of the router, in nft's language. Connections to a Service's address, to a node port or to a host port are sent to a ready
 * endpoint at random, or with `sessionAffinity: ClientIP` by the client's address. Without endpoints they are refused.
 *
 * An affinity lasts until the endpoints change; its timeout is not observed.
 */
export function routerRules(names: NetworkNames, sources: RuleSources): string {
  const destinations = destinationsOf(sources, names).filter(({ backends }) => backends.length > 0);
  const named = destinations.map((destination, index) => ({ ...destination, chain: `d${index}` }));
  const element = ({ address, protocol, port, chain }: (typeof named)[number]): string =>
    `${address === undefined ? "" : `${address} . `}${protocol} . ${port} : goto ${chain}`;
  const ownElements = named.filter(({ address }) => address !== undefined).map(element);
  const nodeElements = named.filter(({ address }) => address === undefined).map(element);
  return [
    // Created first, so that it can be deleted. The whole input is one transaction.
    "table ip keelson {}",
    "delete table ip keelson",
    "table ip keelson {",
    ...mapOf("addresses", "ipv4_addr . inet_proto . inet_service", ownElements),
    ...mapOf("node-ports", "inet_proto . inet_service", nodeElements),
    ...named.flatMap((destination) => chainsOf(destination, names)),
    "  chain prerouting {",
    "    type nat hook prerouting priority dstnat;",
    "    ip daddr . meta l4proto . th dport vmap @addresses",
    `    ip daddr { ${names.nodeAddress}, ${names.routerAddress} } meta l4proto . th dport vmap @node-ports`,
    "  }",
    "  chain unanswered {",
    "    type filter hook prerouting priority -90;",
    `    ip daddr ${names.services} meta l4proto tcp reject with tcp reset`,
    `    ip daddr ${names.services} reject with icmp port-unreachable`,
    "  }",
    "  chain postrouting {",
    "    type nat hook postrouting priority srcnat;",
    `    meta mark and ${hairpinMark} == ${hairpinMark} snat to ${names.routerAddress}`,
    "  }",
    "}",
    "",
  ].join("\n");
}

/**
 * The table of the machine: node ports and host ports also on its own addresses, and the API server, which listens on loopback, for Pods.
 * Other addresses of 127.0.0.0/8 stay out of reach for Pods.
 */
export function machineRules(names: NetworkNames, sources: RuleSources, apiPort: number): string {
  const nodePorts = destinationsOf({ ...sources, hostPorts: [] }, names)
    .filter(({ address, backends }) => address === undefined && backends.length > 0)
    .map(({ protocol, port }) => `${protocol} . ${port}`);
  const { table, link, nodeAddress, routerAddress, pods } = names;
  const hostPorts = [...sources.hostPorts].flatMap(({ hostIP = "", port, protocol, target }) => {
    const address = isAnyAddress(hostIP) ? `{ ${nodeAddress}, 127.0.0.1 }` : hostIP;
    const name = protocols[protocol];
    // Other loopback addresses may be those of another data directory's Pods and Services.
    if (name === undefined || (isLoopback(hostIP) && hostIP !== "127.0.0.1")) return [];
    // Only addresses of the machine: a Pod must not receive connections to others.
    return [`    ip daddr ${address} fib daddr type local ${name} dport ${port} dnat to ${target.host}:${target.port}`];
  });
  const elements = nodePorts.length === 0 ? [] : [`    elements = { ${nodePorts.join(", ")} }`];
  return [
    `table ip ${table} {}`,
    `delete table ip ${table}`,
    `table ip ${table} {`,
    ...["  set node-ports {", "    type inet_proto . inet_service;", ...elements, "  }"],
    "  chain prerouting {",
    "    type nat hook prerouting priority dstnat;",
    `    iifname ${link} ip daddr ${nodeAddress} tcp dport ${apiPort} dnat to 127.0.0.1`,
    "  }",
    "  chain output {",
    "    type nat hook output priority -100;",
    // No port of a Pod hides the API server.
    `    ip daddr { ${nodeAddress}, 127.0.0.1 } tcp dport ${apiPort} accept`,
    ...hostPorts,
    `    ip daddr { ${nodeAddress}, 127.0.0.1 } meta l4proto . th dport @node-ports dnat to ${routerAddress}`,
    "  }",
    "  chain postrouting {",
    "    type nat hook postrouting priority srcnat;",
    `    oifname ${link} ip saddr 127.0.0.0/8 snat to ${nodeAddress}`,
    `    oifname != ${link} ip saddr ${pods} masquerade`,
    "  }",
    "  chain input {",
    "    type filter hook input priority filter;",
    `    iifname ${link} ip daddr 127.0.0.0/8 ct status and dnat != dnat drop`,
    "  }",
    // Pods of other data directories, even if the machine forwards packets.
    "  chain forward {",
    "    type filter hook forward priority filter;",
    `    iifname "kl*" iifname != ${link} oifname ${link} drop`,
    "  }",
    "}",
    "",
  ].join("\n");
}

function mapOf(name: string, type: string, elements: readonly string[]): readonly string[] {
  const content = elements.length === 0 ? [] : [`    elements = { ${elements.join(", ")} }`];
  return [`  map ${name} {`, `    type ${type} : verdict;`, ...content, "  }"];
}

/** The chain of a destination, and one for each of its backends. */
function chainsOf(
  { chain, protocol, backends, isSticky }: Destination & { readonly chain: string },
  names: NetworkNames,
): readonly string[] {
  const choice = isSticky ? "jhash ip saddr" : "numgen random";
  const verdicts = backends.map((_, index) => `${index} : goto ${chain}-${index}`);
  return [
    ...backends.flatMap(({ host, port }, index) => {
      const target = isLoopback(host) ? names.nodeAddress : host;
      return [
        `  chain ${chain}-${index} {`,
        `    ip saddr ${target} meta mark set meta mark or ${hairpinMark}`,
        `    meta l4proto ${protocol} dnat to ${target}:${port}`,
        "  }",
      ];
    }),
    `  chain ${chain} {`,
    `    ${choice} mod ${backends.length} vmap { ${verdicts.join(", ")} }`,
    "  }",
  ];
}

const isAnyAddress = (hostIP: string): boolean => hostIP === "" || hostIP === "0.0.0.0";
const isLoopback = (host: string): boolean => host.startsWith("127.");

/** The destinations of Services and host ports, each once. */
function destinationsOf(
  { services, slices, hostPorts }: RuleSources,
  { nodeAddress }: Pick<NetworkNames, "nodeAddress">,
): readonly Destination[] {
  const byService = slicesByService(slices);
  const found = new Map<string, Destination>();
  const add = (destination: Destination): void => {
    const { address = "", protocol, port } = destination;
    const key = `${address}/${protocol}/${port}`;
    if (!found.has(key)) found.set(key, destination);
  };
  for (const { metadata, spec } of services) {
    const address = spec?.clusterIP;
    if (address === undefined || !isIPv4(address) || spec?.type === "ExternalName") continue;
    const own = byService.get(`${metadata.namespace}/${metadata.name}`) ?? [];
    const isSticky = spec?.sessionAffinity === "ClientIP";
    for (const { name = "", port, nodePort, protocol: shown = "TCP" } of spec?.ports ?? []) {
      const protocol = protocols[shown];
      if (protocol === undefined) continue;
      const backends = backendsOf(own, name, shown).filter(({ host }) => isIPv4(host));
      const common = { protocol, backends, isSticky };
      add({ ...common, address, port });
      if (nodePort !== undefined && nodePort > 0) add({ ...common, address: undefined, port: nodePort });
    }
  }
  for (const { hostIP = "", port, protocol: shown, target } of hostPorts) {
    const protocol = protocols[shown];
    // Only the machine itself reaches the ports of its other addresses, see `machineRules`. Any other address belongs to someone else.
    if (protocol === undefined || !(isAnyAddress(hostIP) || hostIP === nodeAddress)) continue;
    const address = isAnyAddress(hostIP) ? undefined : hostIP;
    add({ address, protocol, port, backends: [target], isSticky: false });
  }
  return [...found.values()];
}
