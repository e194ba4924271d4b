import {
  type ClusterDnsOptions,
  type NetworkPolicies,
  type NetworkPoliciesOptions,
  type PodNetwork,
  startClusterDns,
  startNetworkPolicies,
} from "@keelson/cluster";

/** What the kubelet uses for Pods with a network namespace. */
export interface NetworkParts {
  readonly network: PodNetwork;
  readonly policies: NetworkPolicies;
  /** The address of the DNS server. */
  readonly clusterDns: string;
}

/**
 * Starts what the kubelet needs before the first Pod: it waits for the rules of each, and writes the address of the DNS server into
 * their resolver settings. What is started is stopped by `stops`, in reverse order.
 */
export async function startNetworkParts(
  network: PodNetwork,
  options: Omit<NetworkPoliciesOptions & ClusterDnsOptions, "names" | "dns">,
  stops: (() => Promise<void>)[],
): Promise<NetworkParts> {
  const { names } = network;
  const dns = await startClusterDns({ ...options, names });
  stops.push(() => dns.stop());
  const policies = startNetworkPolicies({ ...options, names, dns });
  stops.push(() => policies.stop());
  return { network, policies, clusterDns: dns.address };
}
