import type { NetworkPolicyObject, NetworkPolicyPeer, NetworkPolicyPort } from "@keelson/api-machinery/kinds";
import fc from "fast-check";
import { expect, test } from "vitest";
import { addressNumber, formatAddress, parseRange, subtractRanges, uniteRanges } from "./address-ranges.ts";
import { networkNames } from "./network-names.ts";
import {
  type DirectionRules,
  maxNamespaceElements,
  policyRules,
  type PolicyRuleSet,
  type PolicySources,
} from "./policy-rules.ts";
import { type PolicyPod, withoutAllowances } from "./policy-objects.ts";
import { policyTable } from "./policy-table.ts";

interface Packet {
  readonly from: string;
  readonly to: string;
  readonly protocol: string;
  readonly port: number;
}

function finish<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Interprets generated sets as nftables does. */
function isAllowedByRules(rules: PolicyRuleSet, packet: Packet): boolean {
  return (
    passes(rules, rules.egress, packet, packet.from, packet.to) && passes(rules, rules.ingress, packet, packet.to, packet.from)
  );
}

function passes(rules: PolicyRuleSet, direction: DirectionRules, packet: Packet, own: string, other: string): boolean {
  const group = direction.isolated.get(own);
  if (group === undefined) return true;
  const number = addressNumber(other);
  const protocol = packet.protocol.toLowerCase();
  const chains = direction.groups.get(group) ?? [];
  return chains
    .flatMap((chain) => direction.chains.get(chain) ?? [])
    .some(
      ({ peers, ports, namedPort }) =>
        (peers === undefined || rules.peers.get(peers)?.some(({ first, last }) => first <= number && number <= last)) &&
        (ports === undefined ||
          rules.ports
            .get(ports)
            ?.some((each) => each.protocol === protocol && each.first <= packet.port && packet.port <= each.last)) &&
        (namedPort === undefined ||
          rules.namedPorts
            .get(namedPort)
            ?.some((each) => each.address === packet.to && each.protocol === protocol && each.port === packet.port)),
    );
}

type Selector = NonNullable<NetworkPolicyPeer["podSelector"]>;

function selects({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Readonly<Record<string, string>>): boolean {
  if (Object.entries(matchLabels).some(([key, value]) => labels[key] !== value)) return false;
  return matchExpressions.every(({ key, operator, values = [] }) => {
    const value = labels[key];
    if (operator === "Exists") return value !== undefined;
    if (operator === "DoesNotExist") return value === undefined;
    return (value !== undefined && values.includes(value)) === (operator === "In");
  });
}

/** The documentation of NetworkPolicy, word by word. */
function isAllowedNaively(sources: PolicySources, packet: Packet): boolean {
  const podAt = (address: string): PolicyPod | undefined => sources.pods.find((pod) => pod.address === address);
  const isIn = (address: string, cidr: string): boolean => {
    const [network = "", length = "0"] = cidr.split("/");
    const bits = (text: string): string =>
      text
        .split(".")
        .map((part) => Number(part).toString(2).padStart(8, "0"))
        .join("");
    return bits(address).startsWith(bits(network).slice(0, Number(length)));
  };
  const isPeer = (
    namespace: string,
    { ipBlock, podSelector, namespaceSelector }: NetworkPolicyPeer,
    address: string,
  ): boolean => {
    if (ipBlock) return isIn(address, ipBlock.cidr) && !(ipBlock.except ?? []).some((cidr) => isIn(address, cidr));
    const pod = podAt(address);
    if (pod === undefined || (podSelector && !selects(podSelector, pod.labels))) return false;
    if (namespaceSelector === undefined) return pod.namespace === namespace;
    return selects(namespaceSelector, sources.namespaces.get(pod.namespace) ?? {});
  };
  const isPort = ({ port, endPort, protocol = "TCP" }: NetworkPolicyPort): boolean => {
    if (protocol !== packet.protocol) return false;
    if (typeof port !== "string") return port === undefined || (port <= packet.port && packet.port <= (endPort ?? port));
    const named = podAt(packet.to)?.ports.find((each) => each.name === port && each.protocol === protocol);
    return named?.port === packet.port;
  };
  return (["Egress", "Ingress"] as const).every((type) => {
    const [own, other] = type === "Egress" ? [packet.from, packet.to] : [packet.to, packet.from];
    const pod = podAt(own);
    const policies = sources.policies.filter(({ namespace, spec }) => {
      const implied = spec.egress?.length ? ["Ingress", "Egress"] : ["Ingress"];
      const types = spec.policyTypes?.length ? spec.policyTypes : implied;
      return pod?.namespace === namespace && selects((spec.podSelector ?? {}) as Selector, pod.labels) && types.includes(type);
    });
    if (policies.length === 0) return true;
    return policies.some(({ namespace, spec }) => {
      const { ingress = [], egress = [] } = spec as NonNullable<NetworkPolicyObject["spec"]>;
      const rules =
        type === "Egress"
          ? egress.map((rule) => ({ peers: rule.to, ports: rule.ports }))
          : ingress.map((rule) => ({ peers: rule.from, ports: rule.ports }));
      return rules.some(
        ({ peers = [], ports = [] }) =>
          (peers.length === 0 || peers.some((peer) => isPeer(namespace, peer, other))) &&
          (ports.length === 0 || ports.some(isPort)),
      );
    });
  });
}

const key = fc.constantFrom("app", "tier");
const value = fc.constantFrom("a", "b");
const labels = fc.dictionary(key, value, { maxKeys: 2 });
const selector = fc.oneof(
  fc.constant({}),
  fc.record({ matchLabels: labels }),
  fc.record({
    matchExpressions: fc.array(
      fc.oneof(
        fc.record({ key, operator: fc.constantFrom("In", "NotIn"), values: fc.array(value, { minLength: 1, maxLength: 2 }) }),
        fc.record({ key, operator: fc.constantFrom("Exists", "DoesNotExist") }),
      ),
      { maxLength: 2 },
    ),
  }),
);
const cidr = fc.constantFrom("0.0.0.0/0", "10.70.0.0/29", "10.70.0.2/31", "10.70.0.3/32", "10.70.0.0/30", "203.0.113.0/24");
const ipBlock = fc.record({ cidr, except: fc.array(cidr, { maxLength: 2 }) });
const peer: fc.Arbitrary<NetworkPolicyPeer> = fc.oneof(
  fc.record({ ipBlock }),
  fc.record({ podSelector: selector }),
  fc.record({ namespaceSelector: selector }),
  fc.record({ podSelector: selector, namespaceSelector: selector }),
);
const protocol = fc.constantFrom("TCP" as const, "UDP" as const, "SCTP" as const);
const port: fc.Arbitrary<NetworkPolicyPort> = fc.oneof(
  fc.constant({}),
  fc.record({ protocol }),
  fc.record({ protocol, port: fc.constantFrom("web", "dns") }),
  fc.record({ protocol, port: fc.constantFrom(80, 81) }, { requiredKeys: ["port"] }),
  fc.record({ port: fc.constantFrom(79, 80), endPort: fc.constantFrom(80, 81) }),
);
const ports = fc.array(port, { maxLength: 2 });
const peers = fc.array(peer, { maxLength: 2 });
const spec = fc.record(
  {
    podSelector: selector,
    policyTypes: fc.uniqueArray(fc.constantFrom("Ingress" as const, "Egress" as const)),
    ingress: fc.array(fc.record({ from: peers, ports }, { requiredKeys: [] }), { maxLength: 2 }),
    egress: fc.array(fc.record({ to: peers, ports }, { requiredKeys: [] }), { maxLength: 2 }),
  },
  { requiredKeys: ["podSelector"] },
);
const namespace = fc.constantFrom("n", "m");
const pod = fc.record({
  namespace,
  labels,
  ports: fc.array(fc.record({ name: fc.constantFrom("web", "dns"), protocol, port: fc.constantFrom(80, 81) }), {
    maxLength: 2,
  }),
});
const cluster = fc.record({
  pods: fc
    .array(pod, { maxLength: 4 })
    .map((pods) => pods.map((each, index) => ({ ...each, address: `10.70.0.${index + 1}` }))),
  namespaces: fc.tuple(labels, labels).map(([n, m]) => new Map([["n", n] as const, ["m", m] as const])),
  policies: fc
    .array(fc.record({ namespace, spec }), { maxLength: 4 })
    .map((all) => all.map((each, index) => ({ ...each, name: `p${index}` }))),
});

test("generated sets allow what the definition of NetworkPolicy allows", () => {
  fc.assert(
    fc.property(cluster, (sources) => {
      const rules = finish(policyRules(sources));
      const ends = [...sources.pods.map(({ address }) => address), "203.0.113.9"];
      for (const from of ends) {
        for (const to of ends) {
          if (from === to) continue;
          for (const shown of ["TCP", "UDP", "SCTP"]) {
            for (const number of [79, 80, 81]) {
              const packet = { from, to, protocol: shown, port: number };
              expect(isAllowedByRules(rules, packet), JSON.stringify(packet)).toBe(isAllowedNaively(sources, packet));
            }
          }
        }
      }
    }),
    { numRuns: 300 },
  );
});

test("no text of an object becomes a part of the rules", () => {
  const hostile = '"; } flush ruleset; #\n';
  const policies = [
    {
      namespace: hostile,
      name: hostile,
      spec: {
        podSelector: {},
        ingress: [
          { from: [{ ipBlock: { cidr: `10.0.0.0/8${hostile}` } }, { ipBlock: { cidr: "10.0.0.0/8", except: [hostile] } }] },
          { ports: [{ port: hostile }, { port: Number.NaN }, { port: 70_000 }, { port: 9, endPort: 1e9 }] },
        ],
      },
    },
  ];
  const pods = [
    { namespace: hostile, address: "10.70.0.1", labels: {}, ports: [{ name: hostile, protocol: hostile, port: 80 }] },
  ];
  const rules = finish(policyRules({ pods, namespaces: new Map([[hostile, {}]]), policies }));
  expect([...rules.ingress.chains.values()]).toEqual([[]]);
  const table = finish(policyTable(networkNames("/data", "10.70", "10.134"), rules));
  expect(table).not.toMatch(/["#]|flush|10\.0\.0\.0/);
});

test("ranges are united and subtracted", () => {
  const range = (text: string) => parseRange(text) ?? expect.unreachable();
  const text = (ranges: ReturnType<typeof uniteRanges>): string[] =>
    ranges.map(({ first, last }) => `${formatAddress(first)}-${formatAddress(last)}`);
  expect(text(uniteRanges([range("10.0.0.2/31"), range("10.0.0.0/31"), range("10.0.0.1/32"), range("255.0.0.0/8")]))).toEqual([
    "10.0.0.0-10.0.0.3",
    "255.0.0.0-255.255.255.255",
  ]);
  expect(text(subtractRanges(range("10.0.0.0/30"), [range("10.0.0.1/32")]))).toEqual([
    "10.0.0.0-10.0.0.0",
    "10.0.0.2-10.0.0.3",
  ]);
  expect(["fd00::/8", "10.0.0.0/33", "10.0.0.0", "a/8"].map(parseRange)).toEqual(Array(4).fill(undefined));
});

test("a policy whose peers have too many ranges isolates its Pods and allows nothing, without effect on other namespaces", () => {
  const blocks = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ ipBlock: { cidr: `${formatAddress(2 ** 31 + index * 2)}/32` } }));
  const policy = (namespace: string, name: string, count: number) => ({
    namespace,
    name,
    spec: {
      podSelector: {},
      policyTypes: ["Ingress" as const, "Egress" as const],
      ingress: [{ from: blocks(count) }],
      egress: [{}],
    },
  });
  const policies = [
    policy("n", "first", 6_000),
    policy("n", "second", maxNamespaceElements - 6_000 + 1),
    policy("n", "third", 10),
    policy("m", "other", 6_000),
  ];
  const pods = ["n", "m"].map((each, index) => ({ namespace: each, address: `10.70.0.${index + 1}`, labels: {}, ports: [] }));
  const namespaces = new Map([["n", {}] as const, ["m", {}] as const]);
  const rules = finish(policyRules({ pods, namespaces, policies }));
  expect(rules.oversized).toEqual([1]);
  for (const { chains } of [rules.ingress, rules.egress]) {
    expect([...chains.values()].map(({ length }) => length)).toEqual([1, 0, 1, 1]);
  }
  const again = finish(policyRules({ pods, namespaces, policies, blocks: rules.blocks }));
  expect(again).toEqual(rules);
  expect([...again.blocks.values()].every((ranges, index) => ranges === [...rules.blocks.values()][index])).toBe(true);
});

test("a policy without its allowances isolates in the same directions", () => {
  const typesOf = (spec: NonNullable<NetworkPolicyObject["spec"]>) =>
    withoutAllowances({ namespace: "n", name: "p", spec }).spec.policyTypes;
  expect(typesOf({ policyTypes: [], egress: [{}] })).toEqual(["Ingress", "Egress"]);
  expect(typesOf({ policyTypes: [] })).toEqual(["Ingress"]);
  expect(typesOf({ policyTypes: ["Egress"], egress: [{}] })).toEqual(["Egress"]);
});
