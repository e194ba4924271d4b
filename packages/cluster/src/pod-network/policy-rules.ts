import { createHash } from "node:crypto";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { NetworkPolicyPeer, NetworkPolicyPort } from "@keelson/api-machinery/kinds";
import { everything, nothing, type Selector } from "@keelson/api-machinery/selectors";
import { addressNumber, type AddressRange, blockRanges, uniteRanges } from "./address-ranges.ts";
import { allowedDnsPorts, type DnsPeer, selectsDns } from "./dns-peer.ts";
import { type PolicyPod, type PolicySpec, policyTypesOf } from "./policy-objects.ts";
import { policySelector } from "./policy-selectors.ts";

/** What the rules are derived from. Each Pod has another address. */
export interface PolicySources {
  readonly pods: readonly PolicyPod[];
  /** The labels of Namespaces by name. */
  readonly namespaces: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly policies: readonly PolicySpec[];
  /** Where the DNS server listens. Default: there is none. */
  readonly dns?: DnsPeer | undefined;
  /** The {@link PolicyRuleSet.blocks} of earlier rules, so that the blocks of unchanged policies are not computed again. */
  readonly blocks?: PolicyRuleSet["blocks"];
}

/** Ports of one protocol, both ends included. */
export interface PortRange extends AddressRange {
  readonly protocol: string;
}

/** Allows connections that match all of its sets. An absent set matches everything. */
export interface PolicyRule {
  /** The other end: of {@link PolicyRuleSet.peers}. */
  readonly peers?: string;
  /** The target's protocol and port: of {@link PolicyRuleSet.ports}. */
  readonly ports?: string;
  /** The target's address, protocol and port: of {@link PolicyRuleSet.namedPorts}. */
  readonly namedPort?: string;
}

/** The rules of a Pod network. Names of sets, chains and groups are hexadecimal hashes. */
export interface PolicyRuleSet {
  /** The addresses of known Pods. Others must not communicate. */
  readonly addresses: readonly string[];
  readonly peers: ReadonlyMap<string, readonly AddressRange[]>;
  readonly ports: ReadonlyMap<string, readonly PortRange[]>;
  readonly namedPorts: ReadonlyMap<
    string,
    readonly { readonly address: string; readonly protocol: string; readonly port: number }[]
  >;
  readonly ingress: DirectionRules;
  readonly egress: DirectionRules;
  /** The ranges of each `ipBlock`. */
  readonly blocks: ReadonlyMap<object, readonly AddressRange[]>;
  /** The indexes of policies that allow nothing, because their namespace has more than {@link maxNamespaceElements}. */
  readonly oversized: readonly number[];
}

/** The rules for one direction. */
export interface DirectionRules {
  /** The rules of each policy. */
  readonly chains: ReadonlyMap<string, readonly PolicyRule[]>;
  /** Sets of policies that select the same Pods, each with the names of its chains. */
  readonly groups: ReadonlyMap<string, readonly string[]>;
  /** The group of each isolated Pod, by its address. */
  readonly isolated: ReadonlyMap<string, string>;
}

/** nftables' names of the protocols that policies can name. */
const protocols: Readonly<Record<string, string>> = { TCP: "tcp", UDP: "udp", SCTP: "sctp" };

/** The maximum number of ranges of addresses in the peers of a namespace's policies. */
export const maxNamespaceElements = 10_000;

/** The number of Pods that are matched between two yields. */
const batchSize = 256;

/** Derives rules from NetworkPolicies. Yields often, so that the caller can give way to other work. */
export function* policyRules(sources: PolicySources): Generator<void, PolicyRuleSet> {
  return yield* new PolicyCompiler(sources).run();
}

class PolicyCompiler {
  readonly #sources: PolicySources;
  readonly #pods = new Map<string, PolicyPod[]>();
  readonly #peers = new Map<string, readonly AddressRange[]>();
  readonly #ports = new Map<string, readonly PortRange[]>();
  readonly #namedPorts = new Map<string, { address: string; protocol: string; port: number }[]>();

  readonly #blocks = new Map<object, readonly AddressRange[]>();
  /** The number of ranges by namespace. */
  readonly #elements = new Map<string, number>();
  #isOversized = false;

  constructor(sources: PolicySources) {
    this.#sources = sources;
  }

  *run(): Generator<void, PolicyRuleSet> {
    const { pods, policies } = this.#sources;
    for (const [index, pod] of pods.entries()) {
      if (index % batchSize === 0) yield;
      entryOf(this.#pods, pod.namespace).push(pod);
      this.#addNamedPorts(pod);
    }
    const directions = {
      ingress: { chains: new Map<string, readonly PolicyRule[]>(), members: new Map<string, string[]>() },
      egress: { chains: new Map<string, readonly PolicyRule[]>(), members: new Map<string, string[]>() },
    };
    const oversized: number[] = [];
    for (const [index, policy] of policies.entries()) {
      this.#isOversized = false;
      const { ingress = [], egress = [], podSelector } = policy.spec;
      const types = policyTypesOf(policy.spec);
      const selected = yield* this.#matching([policy.namespace], policySelector(podSelector ?? {}, everything));
      const chain = hashOf(`${policy.namespace}/${policy.name}`);
      const rules = {
        ingress: types.includes("Ingress") ? ingress.map(({ from, ports }) => ({ peers: from, ports })) : undefined,
        egress: types.includes("Egress") ? egress.map(({ to, ports }) => ({ peers: to, ports })) : undefined,
      };
      for (const direction of ["ingress", "egress"] as const) {
        const own = rules[direction];
        if (own === undefined || selected.length === 0) continue;
        const { chains, members } = directions[direction];
        const compiled: PolicyRule[] = [];
        for (const { peers = [], ports = [] } of own) {
          compiled.push(...(yield* this.#rules(policy.namespace, peers, ports)));
          // The node may always connect to Pods.
          if (direction === "egress") compiled.push(...(yield* this.#dnsRules(policy.namespace, peers, ports)));
        }
        chains.set(chain, compiled);
        for (const { address } of selected) entryOf(members, address).push(chain);
        yield;
      }
      if (!this.#isOversized) continue;
      oversized.push(index);
      for (const { chains } of Object.values(directions)) if (chains.has(chain)) chains.set(chain, []);
    }
    return {
      ...{ blocks: this.#blocks, oversized },
      addresses: pods.map(({ address }) => address),
      ...{ peers: this.#peers, ports: this.#ports, namedPorts: this.#namedPorts },
      ingress: { chains: directions.ingress.chains, ...(yield* groupsOf(directions.ingress.members)) },
      egress: { chains: directions.egress.chains, ...(yield* groupsOf(directions.egress.members)) },
    };
  }

  #addNamedPorts({ address, ports }: PolicyPod): void {
    const own = new Set<string>();
    for (const { name, protocol: shown, port } of ports) {
      const protocol = protocols[shown];
      const id = hashOf(`${shown}/${name}`);
      // The first container with a port of that name decides, as for Services.
      if (protocol === undefined || !isPort(port) || own.has(id)) continue;
      own.add(id);
      entryOf(this.#namedPorts, id).push({ address, protocol, port });
    }
  }

  /** The rules that a rule of a policy becomes. None, if it allows nothing. */
  *#rules(
    namespace: string,
    peers: DeepReadonly<NetworkPolicyPeer[]>,
    ports: DeepReadonly<NetworkPolicyPort[]>,
  ): Generator<void, readonly PolicyRule[]> {
    const from = yield* this.#peerSet(namespace, peers);
    if (from === undefined) return [];
    if (ports.length === 0) return [from];
    const ranges: PortRange[] = [];
    const rules: PolicyRule[] = [];
    for (const { port, endPort, protocol: shown = "TCP" } of ports) {
      const protocol = protocols[shown];
      if (protocol === undefined) continue;
      if (typeof port === "string") {
        const namedPort = hashOf(`${shown}/${port}`);
        if (this.#namedPorts.has(namedPort)) rules.push({ ...from, namedPort });
      } else {
        const [first, last] = port === undefined ? [0, 65_535] : [port, endPort ?? port];
        if (isPort(first) && isPort(last) && first <= last) ranges.push({ protocol, first, last });
      }
    }
    yield;
    const united = Object.values(protocols).flatMap((protocol) =>
      uniteRanges(ranges.filter((range) => range.protocol === protocol)).map((range) => ({ protocol, ...range })),
    );
    if (united.length === 0) return rules;
    const id = hashOf(united.map(({ protocol, first, last }) => `${protocol}/${first}-${last}`).join());
    this.#ports.set(id, united);
    return [...rules, { ...from, ports: id }];
  }

  /** The rule for what an egress rule allows of the DNS server, whose ports are not those that the rule names. */
  *#dnsRules(
    namespace: string,
    peers: DeepReadonly<NetworkPolicyPeer[]>,
    ports: DeepReadonly<NetworkPolicyPort[]>,
  ): Generator<void, readonly PolicyRule[]> {
    const { dns, namespaces } = this.#sources;
    if (dns === undefined || !(yield* selectsDns(namespace, peers, namespaces))) return [];
    const targets = allowedDnsPorts(dns, ports);
    if (targets.length === 0) return [];
    const namedPort = hashOf(`dns/${targets.map(({ protocol }) => protocol).join()}`);
    this.#namedPorts.set(namedPort, [...targets]);
    return [{ namedPort }];
  }

  /** The set of the addresses of peers: `{}` if every address matches, undefined if none does. */
  *#peerSet(namespace: string, peers: DeepReadonly<NetworkPolicyPeer[]>): Generator<void, PolicyRule | undefined> {
    if (peers.length === 0) return {};
    let ranges: AddressRange[] = [];
    for (const peer of peers) {
      for (const range of yield* this.#peerRanges(namespace, peer)) ranges.push(range);
      // Many peers may match the same Pods.
      if (ranges.length > maxNamespaceElements) ranges = [...uniteRanges(ranges)];
      if (ranges.length > maxNamespaceElements) break;
      yield;
    }
    const united = uniteRanges(ranges);
    yield;
    const elements = (this.#elements.get(namespace) ?? 0) + united.length;
    if (elements > maxNamespaceElements) {
      this.#isOversized = true;
      return undefined;
    }
    this.#elements.set(namespace, elements);
    const [first] = united;
    if (first === undefined) return undefined;
    if (first.first === 0 && first.last === 2 ** 32 - 1) return {};
    const hash = createHash("sha256");
    for (const [index, range] of united.entries()) {
      hash.update(`${range.first}-${range.last},`);
      if (index % batchSize === 0) yield;
    }
    const id = hash.digest("hex").slice(0, 20);
    this.#peers.set(id, united);
    return { peers: id };
  }

  *#peerRanges(namespace: string, peer: DeepReadonly<NetworkPolicyPeer>): Generator<void, readonly AddressRange[]> {
    const { ipBlock, podSelector, namespaceSelector } = peer;
    if (ipBlock !== undefined) {
      const ranges = this.#sources.blocks?.get(ipBlock) ?? (yield* blockRanges(ipBlock.cidr, ipBlock.except));
      this.#blocks.set(ipBlock, ranges);
      return ranges;
    }
    if (podSelector === undefined && namespaceSelector === undefined) return [];
    const namespaces =
      namespaceSelector === undefined ? [namespace] : yield* this.#namespaces(policySelector(namespaceSelector, nothing));
    const pods = yield* this.#matching(namespaces, policySelector(podSelector ?? {}, nothing));
    return pods.map(({ address }) => addressNumber(address)).map((number) => ({ first: number, last: number }));
  }

  *#namespaces(selector: Selector): Generator<void, readonly string[]> {
    const found: string[] = [];
    let count = 0;
    for (const [name, labels] of this.#sources.namespaces) {
      if (count++ % batchSize === 0) yield;
      if (selector.matches(labels)) found.push(name);
    }
    return found;
  }

  *#matching(namespaces: readonly string[], selector: Selector): Generator<void, readonly PolicyPod[]> {
    const found: PolicyPod[] = [];
    let count = 0;
    for (const namespace of namespaces) {
      for (const pod of this.#pods.get(namespace) ?? []) {
        if (count++ % batchSize === 0) yield;
        if (selector.matches(pod.labels)) found.push(pod);
      }
    }
    return found;
  }
}

/** Puts Pods that the same policies select into one group. */
function* groupsOf(
  members: ReadonlyMap<string, readonly string[]>,
): Generator<void, Pick<DirectionRules, "groups" | "isolated">> {
  const groups = new Map<string, readonly string[]>();
  const isolated = new Map<string, string>();
  for (const [address, chains] of members) {
    const group = hashOf(chains.join());
    groups.set(group, chains);
    isolated.set(address, group);
    yield;
  }
  return { groups, isolated };
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 20);
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 0 && port <= 65_535;
}

function entryOf<T>(map: Map<string, T[]>, key: string): T[] {
  const found = map.get(key) ?? [];
  map.set(key, found);
  return found;
}
