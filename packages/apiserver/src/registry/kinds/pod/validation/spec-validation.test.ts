import { describe, expect, it } from "vitest";
import { podSpecCauses } from "./spec-validation.ts";
import { collectCauses } from "../../../causes.ts";

/** `<field>: <message>` of what is wrong with the spec of a Pod of one good container and `fields`. */
function faults(fields: object): string[] {
  const container = { name: "c", image: "i", imagePullPolicy: "Always", terminationMessagePolicy: "File" };
  const spec = { restartPolicy: "Always", dnsPolicy: "Default", schedulerName: "s", containers: [container], ...fields };
  return collectCauses(podSpecCauses(spec, "spec")).map(({ field, message }) => `${field}: ${message}`);
}
const required = "requiredDuringSchedulingIgnoredDuringExecution";
const preferred = "preferredDuringSchedulingIgnoredDuringExecution";
const expressions = "matchExpressions";

describe("the affinity of a Pod", () => {
  it("has at least one required term, and values that fit the operator", () => {
    expect(faults({ affinity: { nodeAffinity: { [required]: { nodeSelectorTerms: [] } } } })).toEqual([
      `spec.affinity.nodeAffinity.${required}.nodeSelectorTerms: Required value: must have at least one node selector term`,
    ]);
    const term = {
      [expressions]: [
        { key: "a", operator: "In" },
        { key: "a", operator: "Exists", values: ["x"] },
        { key: "a", operator: "Gt", values: [] },
        { key: "a", operator: "Near" },
        { key: "a", operator: "In", values: ["good", "not good"] },
      ],
      matchFields: [
        { key: "metadata.name", operator: "In", values: ["a", "b"] },
        { key: "spec.x", operator: "In", values: ["a"] },
      ],
    };
    const at = `spec.affinity.nodeAffinity.${required}.nodeSelectorTerms[0]`;
    expect(faults({ affinity: { nodeAffinity: { [required]: { nodeSelectorTerms: [term] } } } })).toEqual([
      `${at}.${expressions}[0].values: Required value: must be specified when \`operator\` is 'In' or 'NotIn'`,
      `${at}.${expressions}[1].values: Forbidden: may not be specified when \`operator\` is 'Exists' or 'DoesNotExist'`,
      `${at}.${expressions}[2].values: Required value: must be specified single value when \`operator\` is 'Lt' or 'Gt'`,
      `${at}.${expressions}[3].operator: Invalid value: "Near": not a valid selector operator`,
      expect.stringContaining(`${at}.${expressions}[4].values[1]: Invalid value: "not good": a valid label must be`),
      `${at}.matchFields[0].values: Required value: must be only one value when \`operator\` is 'In' or 'NotIn' for node field selector`,
      `${at}.matchFields[1].key: Invalid value: "spec.x": not a valid field selector key`,
    ]);
  });

  it("has preference weights from 1 to 100", () => {
    const preference = { [expressions]: [{ key: "a", operator: "Exists" }] };
    const weighted = (weight: number): object => ({ affinity: { nodeAffinity: { [preferred]: [{ weight, preference }] } } });
    expect([faults(weighted(1)), faults(weighted(100))]).toEqual([[], []]);
    for (const weight of [0, 101]) {
      expect(faults(weighted(weight))).toEqual([
        `spec.affinity.nodeAffinity.${preferred}[0].weight: Invalid value: ${weight}: must be in the range 1-100`,
      ]);
    }
  });

  it.each(["podAffinity", "podAntiAffinity"])("has a topology key and valid selectors in %s", (kind) => {
    const good = { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { a: "b" } }, namespaces: ["x"] };
    expect(faults({ affinity: { [kind]: { [required]: [good] } } })).toEqual([]);
    expect(faults({ affinity: { [kind]: { [required]: [{ topologyKey: "" }] } } })[0]).toBe(
      `spec.affinity.${kind}.${required}[0].topologyKey: Required value: can not be empty`,
    );
    const labelSelector = { [expressions]: [{ key: "x", operator: "In" }] };
    const at = `spec.affinity.${kind}.${preferred}[0]`;
    const podAffinityTerm = { ...good, labelSelector, namespaces: ["A_b"] };
    expect(faults({ affinity: { [kind]: { [preferred]: [{ weight: 200, podAffinityTerm }] } } })).toEqual([
      `${at}.weight: Invalid value: 200: must be in the range 1-100`,
      `${at}.podAffinityTerm.labelSelector.${expressions}[0].values: Required value: must be specified when \`operator\` is 'In' or 'NotIn'`,
      expect.stringContaining(`${at}.podAffinityTerm.namespace: Invalid value: "A_b": a lowercase RFC 1123 label`),
    ]);
  });
});

describe("the network of a Pod", () => {
  it("has unique host ports across containers, per protocol and address", () => {
    const on = (name: string, ports: readonly object[]): object => ({
      name,
      image: "i",
      ports: ports.map((port) => ({ protocol: "TCP", ...port })),
    });
    const first = on("a", [{ containerPort: 1, hostPort: 80 }]);
    const other = [
      { containerPort: 2, hostPort: 80, protocol: "UDP" },
      { containerPort: 3, hostPort: 80, hostIP: "127.0.0.1" },
      { containerPort: 4 },
      { containerPort: 5 },
    ];
    expect(faults({ containers: [first, on("b", other)] })).toEqual([]);
    expect(faults({ containers: [first, on("b", [...other, { containerPort: 6, hostPort: 80 }])] })).toEqual([
      'spec.containers[1].ports[4].hostPort: Duplicate value: "TCP//80"',
    ]);
  });

  it("has valid nameserver addresses and host aliases", () => {
    const hostAliases = [{ ip: "127.0.0.1", hostnames: ["good.example", "A_b"] }];
    expect(faults({ hostAliases, dnsConfig: { nameservers: ["10.0.0.1", "dns"] } })).toEqual([
      'spec.dnsConfig.nameservers[1]: Invalid value: "dns": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
      expect.stringContaining('spec.hostAliases[0].hostnames[1]: Invalid value: "A_b": a lowercase RFC 1123 subdomain'),
    ]);
  });
});

it("has valid user and group IDs, and sets each sysctl once", () => {
  const range = "must be between 0 and 2147483647, inclusive";
  const sysctls = [{ name: "net.core/somaxconn" }, { name: "a b" }, { name: "" }, { name: "net.core/somaxconn" }];
  const securityContext = { runAsUser: -1, runAsGroup: 0, fsGroup: 2 ** 31, supplementalGroups: [1, -2], sysctls };
  expect(faults({ securityContext })).toEqual([
    `spec.securityContext.fsGroup: Invalid value: 2147483648: ${range}`,
    `spec.securityContext.runAsUser: Invalid value: -1: ${range}`,
    `spec.securityContext.supplementalGroups[1]: Invalid value: -2: ${range}`,
    expect.stringContaining('spec.securityContext.sysctls[1].name: Invalid value: "a b": must have at most 253 characters'),
    "spec.securityContext.sysctls[2].name: Required value",
    'spec.securityContext.sysctls[3].name: Duplicate value: "net.core/somaxconn"',
  ]);
});

describe("the topology spread constraints of a Pod", () => {
  it("are each read a fixed number of times, however many there are", () => {
    let reads = 0;
    const constraints = Array.from({ length: 1000 }, (_, index) => ({
      maxSkew: 1,
      whenUnsatisfiable: "ScheduleAnyway",
      get topologyKey() {
        reads += 1;
        return `key-${index}`;
      },
    }));
    expect(faults({ topologySpreadConstraints: constraints })).toEqual([]);
    expect(reads).toBeLessThan(10 * constraints.length);
  });
});
