import type { NetworkPolicyPeer, NetworkPolicyPort } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { policyRules } from "./policy-rules.ts";

const system = { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } };
const kubeDns = { matchLabels: { "k8s-app": "kube-dns" } };
const usual = { namespaceSelector: system, podSelector: kubeDns };
const [udp, tcp] = ["10.70.255.254 udp 40053", "10.70.255.254 tcp 40054"];
/** A rule that does not concern the DNS server. */
const other = "other";

test.each<[string, NetworkPolicyPeer[] | undefined, NetworkPolicyPort[] | undefined, string[]]>([
  ["the usual rule", [usual], [{ port: 53, protocol: "UDP" }, { port: 53 }], [udp, tcp]],
  ["UDP only", [usual], [{ port: 53, protocol: "UDP" }], [udp]],
  ["without ports", [usual], undefined, [udp, tcp]],
  ["named ports", [usual], [{ port: "dns", protocol: "UDP" }, { port: "dns" }], [udp]],
  ["a port range", [usual], [{ port: 50, endPort: 60 }], [tcp]],
  ["a protocol", [usual], [{ protocol: "UDP" }], [udp]],
  ["the actual port", [usual], [{ port: 40_053, protocol: "UDP" }], []],
  ["another port", [usual], [{ port: 80 }], []],
  ["one of several peers", [{ ipBlock: { cidr: "192.0.2.0/24" } }, usual], undefined, [other, udp, tcp]],
  ["other Pods of the namespace", [{ namespaceSelector: system, podSelector: { matchLabels: { app: "x" } } }], undefined, []],
  ["another namespace", [{ namespaceSelector: { matchLabels: { team: "x" } }, podSelector: kubeDns }], undefined, []],
  ["the policy's own namespace", [{ podSelector: kubeDns }], undefined, []],
  ["every peer", undefined, [{ port: 53, protocol: "UDP" }], [other, udp]],
  ["a block", [{ ipBlock: { cidr: "10.70.255.254/32" } }], [{ port: 53, protocol: "UDP" }], [other]],
])("an egress rule allows ports of the DNS server: %s", (_title, to, ports, expected) => {
  const rule = { ...(to && { to }), ...(ports && { ports }) };
  const spec = { podSelector: {}, policyTypes: ["Egress" as const], egress: [rule] };
  expect(allowed("n", spec)).toEqual(expected);
});

test("a rule of a policy in kube-system selects the DNS server without a namespaceSelector", () => {
  const spec = { podSelector: {}, policyTypes: ["Egress" as const], egress: [{ to: [{ podSelector: kubeDns }] }] };
  expect(allowed("kube-system", spec)).toEqual([udp, tcp]);
});

/** The rules of a policy for egress: the targets of each, or {@link other}. */
function allowed(namespace: string, spec: Parameters<typeof policyRules>[0]["policies"][number]["spec"]): readonly string[] {
  const dns = { address: "10.70.255.254", udpPort: 40_053, tcpPort: 40_054 };
  const pods = [{ namespace, address: "10.70.0.1", labels: {}, ports: [] }];
  const namespaces = new Map<string, Record<string, string>>([
    ["n", {}],
    ["kube-system", system.matchLabels],
  ]);
  const steps = policyRules({ pods, namespaces, dns, policies: [{ namespace, name: "p", spec }] });
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  const { egress, namedPorts } = step.value;
  return [...egress.chains.values()].flat().flatMap(({ namedPort }) => {
    const targets = namedPort === undefined ? undefined : namedPorts.get(namedPort);
    return targets?.map(({ address, protocol, port }) => `${address} ${protocol} ${port}`) ?? [other];
  });
}
