import type { NetworkPolicy, NetworkRule } from "./network-policy.ts";

/** The addresses of a sandbox's network. */
export interface NetworkAddresses {
  /** Name of the host's end of the veth pair. */
  readonly link: string;
  /** Address of the host's end: the sandbox's gateway and resolver. */
  readonly gateway: string;
  /** Address of the sandbox. */
  readonly address: string;
}

/**
 * Addresses that `internet` does not include: this host, private networks, link-local addresses with the metadata services of clouds, and
 * multicast (IANA IPv4 special-purpose address registry). Azure answers its virtual machines on a public address, 168.63.129.16, with
 * their configuration.
 */
export const privateNetworks: readonly string[] = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "224.0.0.0/3",
];

/** Maximum number of connections of a sandbox. The kernel has one connection-tracking table for the whole machine. */
export const maxConnections = 1024;

/** Maximum number of DNS queries of a sandbox per second. Its agent answers them. */
const maxQueriesPerSecond = 200;

/** The table of a sandbox's network. */
export const tableOf = ({ link }: Pick<NetworkAddresses, "link">): string => `keelson_${link}`;

const withPorts = (ports: readonly number[] | undefined): string =>
  ports === undefined || ports.length === 0 ? "" : ` meta l4proto { tcp, udp } th dport { ${ports.join(", ")} }`;

const cidrRules = (allow: readonly NetworkRule[]): readonly string[] =>
  allow.flatMap(({ cidr, ports }) => (cidr === undefined ? [] : [`ip daddr ${cidr}${withPorts(ports)} accept`]));

function policyRules({ mode, allow }: NetworkPolicy): readonly string[] {
  if (mode === "internet") return [`ip daddr != { ${privateNetworks.join(", ")} } accept`];
  if (mode === "none") return [];
  return [
    ...cidrRules(allow),
    "ip daddr @resolved accept",
    "meta l4proto { tcp, udp } ip daddr . th dport @resolved_ports accept",
  ];
}

/**
 * The nftables table of a sandbox: it reaches its resolver and what its policy allows, and nothing reaches it except answers. Other flows
 * are rejected and counted. `resolved` and `resolved_ports` contain the addresses of the listed names.
 */
export function firewallTable(addresses: NetworkAddresses, policy: NetworkPolicy): string {
  const { link, gateway, address } = addresses;
  return `table inet ${tableOf(addresses)} {
  counter denied { }
  set denied_to { type ipv4_addr . inet_proto . inet_service; flags dynamic,timeout; timeout 1h; size 64; }
  set resolved { type ipv4_addr; flags timeout; size 4096; }
  set resolved_ports { type ipv4_addr . inet_service; flags timeout; size 16384; }
  chain deny {
    meta l4proto { tcp, udp } update @denied_to { ip daddr . meta l4proto . th dport }
    counter name denied
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
  chain input {
    type filter hook input priority filter - 10; policy accept;
    iifname != "${link}" accept
    meta nfproto ipv6 drop
    ip saddr != ${address} drop
    ip daddr ${gateway} udp dport 53 limit rate ${maxQueriesPerSecond}/second burst ${2 * maxQueriesPerSecond} packets accept
    ip daddr ${gateway} udp dport 53 drop
    ct state established,related accept
    goto deny
  }
  chain forward {
    type filter hook forward priority filter - 10; policy accept;
    oifname "${link}" ct state established,related accept
    oifname "${link}" drop
    iifname != "${link}" accept
    meta nfproto ipv6 drop
    ip saddr != ${address} drop
    ct state established,related accept
    ct count over ${maxConnections} goto deny
    ${policyRules(policy).join("\n    ")}
    goto deny
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${address} oifname != "${link}" masquerade
  }
}
`;
}

/** nftables commands that let a sandbox reach the addresses of a listed name for `seconds`. */
export function allowAddresses(
  table: string,
  resolved: readonly string[],
  rules: readonly NetworkRule[],
  seconds: number,
): string {
  const ports = new Set(rules.flatMap((rule) => rule.ports ?? []));
  const hasAllPorts = rules.some((rule) => rule.ports === undefined || rule.ports.length === 0);
  // Deleting first extends the timeout of an address that is present; the transaction is atomic.
  const replace = (set: string, element: string): string =>
    `add element inet ${table} ${set} { ${element} timeout ${seconds}s }\n` +
    `delete element inet ${table} ${set} { ${element} }\n` +
    `add element inet ${table} ${set} { ${element} timeout ${seconds}s }\n`;
  return resolved
    .flatMap((address) =>
      hasAllPorts
        ? [replace("resolved", address)]
        : [...ports].map((port) => replace("resolved_ports", `${address} . ${port}`)),
    )
    .join("");
}
