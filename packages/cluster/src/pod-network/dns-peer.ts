import type { DeepReadonly } from "@keelson/api-machinery";
import type { NetworkPolicyPeer, NetworkPolicyPort } from "@keelson/api-machinery/kinds";
import { nothing } from "@keelson/api-machinery/selectors";
import { policySelector } from "./policy-selectors.ts";

/** Where the DNS server of the cluster listens. Policies see it as a Pod of CoreDNS, which listens on port 53. */
export interface DnsPeer {
  /** The node's IPv4 address. */
  readonly address: string;
  readonly udpPort: number;
  readonly tcpPort: number;
}

/** A port of the DNS server, with nftables' name of the protocol. */
export interface DnsPort {
  readonly address: string;
  readonly protocol: "udp" | "tcp";
  readonly port: number;
}

const dnsPod = { namespace: "kube-system", labels: { "k8s-app": "kube-dns" } } as const;
const shownPort = 53;

/**
 * Whether peers of an egress rule select the DNS server. An `ipBlock` does not: it allows addresses and ports as they are. `namespace` is
 * that of the policy, `namespaces` are labels by name. Yields often.
 */
export function* selectsDns(
  namespace: string,
  peers: DeepReadonly<NetworkPolicyPeer[]>,
  namespaces: ReadonlyMap<string, Readonly<Record<string, string>>>,
): Generator<void, boolean> {
  if (peers.length === 0) return true;
  const own = namespaces.get(dnsPod.namespace);
  for (const { ipBlock, podSelector, namespaceSelector } of peers) {
    yield;
    if (ipBlock !== undefined || (podSelector === undefined && namespaceSelector === undefined)) continue;
    const isNamespace =
      namespaceSelector === undefined
        ? namespace === dnsPod.namespace
        : own !== undefined && policySelector(namespaceSelector, nothing).matches(own);
    if (isNamespace && policySelector(podSelector ?? {}, nothing).matches(dnsPod.labels)) return true;
  }
  return false;
}

/** The server's ports that the ports of a rule allow. Without ports, both. */
export function allowedDnsPorts(
  { address, udpPort, tcpPort }: DnsPeer,
  ports: DeepReadonly<NetworkPolicyPort[]>,
): readonly DnsPort[] {
  const isAllowed = (shown: string, name: string): boolean =>
    ports.length === 0 ||
    ports.some(({ port, endPort, protocol = "TCP" }) => {
      if (protocol !== shown) return false;
      if (typeof port === "string") return port === name;
      return port === undefined || (port <= shownPort && shownPort <= (endPort ?? port));
    });
  const udp: DnsPort = { address, protocol: "udp", port: udpPort };
  const tcp: DnsPort = { address, protocol: "tcp", port: tcpPort };
  return [...(isAllowed("UDP", "dns") ? [udp] : []), ...(isAllowed("TCP", "dns-tcp") ? [tcp] : [])];
}
