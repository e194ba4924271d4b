import { formatAddress } from "./address-ranges.ts";
import type { NetworkNames } from "./network-names.ts";
import type { DirectionRules, PolicyRule, PolicyRuleSet } from "./policy-rules.ts";
import { hairpinMark } from "./service-rules.ts";

/**
 * The table of NetworkPolicies in the router, in nft's language. It filters packets after the addresses of Services have been translated:
 *
 *     forward -> egress-<group> -> egress policies -> ingress -> ingress-<group> -> ingress policies -> accept
 *
 * A group rejects what none of its policies allows. Replies, connections from the node, and those of a Pod to itself are accepted. The
 * input contains numbers and hashes only, no text of an object. Yields often, so that the caller can give way to other work.
 */
export function* policyTable(names: NetworkNames, rules: PolicyRuleSet): Generator<void, string> {
  const { addresses, peers, ports, namedPorts, ingress, egress } = rules;
  const endpoint = "ipv4_addr . inet_proto . inet_service";
  const lines = [
    // Created first, so that it can be deleted. The whole input is one transaction.
    "table ip keelson_policies {}",
    "delete table ip keelson_policies",
    "table ip keelson_policies {",
    ...setOf("pods", "ipv4_addr", addresses),
  ];
  for (const [id, ranges] of peers) {
    const elements: string[] = [];
    for (const { first, last } of ranges) {
      elements.push(first === last ? formatAddress(first) : `${formatAddress(first)}-${formatAddress(last)}`);
      if (elements.length % 256 === 0) yield;
    }
    lines.push(...setOf(`peers-${id}`, "ipv4_addr", elements, "interval"));
    yield;
  }
  for (const [id, ranges] of ports) {
    const elements = ranges.map(({ protocol, first, last }) => `${protocol} . ${first === last ? first : `${first}-${last}`}`);
    lines.push(...setOf(`ports-${id}`, "inet_proto . inet_service", elements, "interval"));
    yield;
  }
  for (const [id, targets] of namedPorts) {
    const elements = targets.map(({ address, protocol, port }) => `${address} . ${protocol} . ${port}`);
    lines.push(...setOf(`named-${id}`, endpoint, elements));
    yield;
  }
  yield* directionLines(lines, "ingress", ingress);
  lines.push(
    "  chain ingress {",
    `    iifname uplink ip saddr ${names.nodeAddress} accept`,
    "    oifname != uplink ip daddr != @pods drop",
    "    ip daddr vmap @isolated-ingress",
    "    accept",
    "  }",
  );
  yield* directionLines(lines, "egress", egress);
  lines.push(
    "  chain forward {",
    "    type filter hook forward priority filter;",
    // A Pod must not use the address of another.
    "    fib saddr . iif oif missing drop",
    "    ct state established,related accept",
    "    iifname != uplink ip saddr != @pods drop",
    `    meta mark and ${hairpinMark} == ${hairpinMark} accept`,
    "    ip saddr vmap @isolated-egress",
    "    goto ingress",
    "  }",
    "}",
    "",
  );
  return lines.join("\n");
}

type Direction = "ingress" | "egress";

/** Adds the chains of the policies and groups of a direction, and the map of its isolated Pods. */
function* directionLines(lines: string[], direction: Direction, { chains, groups, isolated }: DirectionRules): Generator<void> {
  for (const [id, rules] of chains) {
    lines.push(`  chain ${direction}-policy-${id} {`, ...rules.map((rule) => `    ${ruleLine(direction, rule)}`), "  }");
    yield;
  }
  for (const [id, members] of groups) {
    const jumps = members.map((member) => `    jump ${direction}-policy-${member}`);
    lines.push(`  chain ${direction}-group-${id} {`, ...jumps, "    reject with icmp type admin-prohibited", "  }");
    yield;
  }
  const elements = [...isolated].map(([address, group]) => `${address} : goto ${direction}-group-${group}`);
  const content = elements.length === 0 ? [] : [`    elements = { ${elements.join(", ")} }`];
  lines.push(`  map isolated-${direction} {`, "    type ipv4_addr : verdict;", ...content, "  }");
}

function ruleLine(direction: Direction, { peers, ports, namedPort }: PolicyRule): string {
  return [
    ...(peers === undefined ? [] : [`ip ${direction === "ingress" ? "saddr" : "daddr"} @peers-${peers}`]),
    ...(ports === undefined ? [] : [`meta l4proto . th dport @ports-${ports}`]),
    ...(namedPort === undefined ? [] : [`ip daddr . meta l4proto . th dport @named-${namedPort}`]),
    // What a source may send is up to the policies of its target.
    direction === "ingress" ? "accept" : "goto ingress",
  ].join(" ");
}

function setOf(name: string, type: string, elements: readonly string[], flags?: string): readonly string[] {
  return [
    `  set ${name} {`,
    `    type ${type};`,
    ...(flags === undefined ? [] : [`    flags ${flags};`]),
    ...(elements.length === 0 ? [] : [`    elements = { ${elements.join(", ")} }`]),
    "  }",
  ];
}
