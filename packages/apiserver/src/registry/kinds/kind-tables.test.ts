import { draft, type KubernetesObject } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { StoredObject } from "../../storage/store.ts";
import { builtinKinds } from "../builtin-kinds.ts";
import { listAt, mapAt, valueAt } from "../object-fields.ts";
import type { ServedResource } from "../served-resource.ts";
import { noReviews } from "../testing/crd-samples.ts";
import { collectCauses } from "../causes.ts";

const now = Date.parse("2026-01-01T00:10:00Z");
const kinds = builtinKinds({ clock: { now: () => now }, reviews: noReviews });

function kindOf(plural: string): ServedResource {
  const found = kinds.find((kind) => kind.plural === plural);
  if (found === undefined) throw new Error(`${plural} is not served`);
  return found;
}

type Fields = Readonly<Record<string, unknown>>;

function objectOf(kind: ServedResource, fields: Fields): KubernetesObject {
  const metadata = { name: "a", namespace: "default", uid: "uid-1", creationTimestamp: "2026-01-01T00:00:00Z" };
  const { metadata: more, ...rest } = fields as { metadata?: object };
  return draft({
    apiVersion: kind.storageApiVersion,
    kind: kind.kind,
    metadata: { ...metadata, ...more },
    ...rest,
  });
}

/** What a create stores. */
function created(plural: string, fields: Fields): KubernetesObject {
  const kind = kindOf(plural);
  const object = objectOf(kind, fields);
  kind.strategy.default?.(object);
  kind.strategy.prepareForCreate?.(object);
  return object;
}

/** `<reason> <field>` of what is wrong with what a create makes. */
function refusals(plural: string, fields: Fields): readonly string[] {
  return collectCauses(kindOf(plural).strategy.validate?.(created(plural, fields)) ?? []).map(
    ({ reason, field }) => `${reason} ${field}`,
  );
}

/** `<reason> <field>` of what is wrong with an update from one to the other. */
function updateRefusals(plural: string, before: Fields, after: Fields): readonly string[] {
  const kind = kindOf(plural);
  const old = created(plural, before);
  const next = objectOf(kind, after);
  kind.strategy.default?.(next);
  kind.strategy.prepareForUpdate?.(next, old);
  if (kind.hasStatus) Reflect.set(next, "status", Reflect.get(old, "status"));
  const causes = [kind.strategy.validate?.(next), kind.strategy.validateUpdate?.(next, old)].flatMap((found) =>
    collectCauses(found ?? []),
  );
  return causes.map(({ reason, field }) => `${reason} ${field}`);
}

const container = { name: "c", image: "i:1" };
const template = { metadata: { labels: { app: "a" } }, spec: { containers: [container] } };
const selector = { matchLabels: { app: "a" } };
const labelled = { metadata: { labels: { app: "a" } } };
const failJob = { action: "FailJob", onExitCodes: { operator: "In", values: [1, 2] } };
const jobTemplate = { spec: { containers: [container], restartPolicy: "Never" } };
const claimSpec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };

describe("every kind", () => {
  const samples: readonly (readonly [string, Fields])[] = [
    ["pods", { spec: { containers: [container] } }],
    ["podtemplates", { template }],
    ["nodes", {}],
    ["services", { spec: { ports: [{ port: 80 }] } }],
    ["endpoints", { subsets: [{ addresses: [{ ip: "127.0.0.9" }], ports: [{ port: 80 }] }] }],
    ["endpointslices", { addressType: "IPv4", endpoints: [{ addresses: ["127.0.0.9"] }], ports: [{ port: 80 }] }],
    ["persistentvolumeclaims", { spec: claimSpec }],
    ["persistentvolumes", { spec: { accessModes: ["ReadWriteOnce"], capacity: { storage: "1Gi" }, hostPath: { path: "/x" } } }],
    ["storageclasses", { provisioner: "x" }],
    ["deployments", { spec: { selector, template } }],
    ["replicasets", { spec: { selector, template } }],
    ["replicationcontrollers", { spec: { template } }],
    ["statefulsets", { spec: { selector, template, volumeClaimTemplates: [{ metadata: { name: "d" }, spec: claimSpec }] } }],
    ["daemonsets", { spec: { selector, template } }],
    ["controllerrevisions", { revision: 1, data: {} }],
    ["jobs", { spec: { template: jobTemplate } }],
    ["cronjobs", { spec: { schedule: "*/5 * * * *", jobTemplate: { spec: { template: jobTemplate } } } }],
    ["poddisruptionbudgets", { spec: { minAvailable: "50%", selector } }],
    ["limitranges", { spec: { limits: [{ type: "Container", max: { cpu: "1" } }] } }],
    ["resourcequotas", { spec: { hard: { pods: "3" } } }],
    ["priorityclasses", { value: 7 }],
    [
      "horizontalpodautoscalers",
      { spec: { maxReplicas: 3, scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "a" } } },
    ],
    ["ingresses", { spec: { defaultBackend: { service: { name: "a", port: { number: 80 } } } } }],
    ["ingressclasses", { spec: { controller: "a.b/c" } }],
    ["networkpolicies", {}],
  ];

  it.each(samples)("%s accepts a valid object, and defaulting is idempotent", (plural, fields) => {
    expect(refusals(plural, fields)).toEqual([]);
    const object = created(plural, fields);
    const again = draft(object);
    kindOf(plural).strategy.default?.(again);
    expect(again).toEqual(object);
  });

  it.each<[string, Fields, Fields]>([
    ["networkpolicies", { spec: {} }, { spec: { policyTypes: [] } }],
    ["networkpolicies", { spec: { egress: [{}] } }, { spec: { egress: [{}], policyTypes: [] } }],
    ["services", { spec: { clusterIP: "None" } }, { spec: { clusterIP: "None", clusterIPs: [], ipFamilies: [] } }],
    ["replicationcontrollers", { spec: { template } }, { spec: { template, selector: {} } }],
  ])("%s %o has the same defaults as %o", (plural, absent, empty) => {
    expect(created(plural, empty)).toEqual(created(plural, absent));
  });

  it.each(samples)("%s has a cell for each column", (plural, fields) => {
    const kind = kindOf(plural);
    if (kind.cells === undefined) return expect(kind.columns.map(({ name }) => name)).toEqual(["Created At"]);
    expect(kind.cells(created(plural, fields), now)).toHaveLength(kind.columns.length);
  });

  it.each<[string, Fields, number, string]>([
    ["endpoints", {}, 0, "<none>"],
    ["endpoints", { subsets: [{ notReadyAddresses: [{ ip: "10.1.1.1" }], ports: [{ port: 1 }] }] }, 0, ""],
    ["endpointslices", { addressType: "IPv4", endpoints: [], ports: [{}] }, 1, "<unset>"],
    ["endpointslices", { addressType: "IPv4", endpoints: [], ports: [{ name: "a" }, { port: 2 }] }, 1, "a,2"],
    ["rolebindings", { roleRef: { kind: "Role", name: "r" }, subjects: [{ kind: "ServiceAccount", name: "s" }] }, 4, "/s"],
  ])("%s %j shows missing values like kubectl", (plural, fields, index, cell) => {
    expect(kindOf(plural).cells?.(created(plural, fields), now)[index]).toBe(cell);
  });

  it.each(samples)("%s renders an object with only a name", (plural) => {
    expect(() => [refusals(plural, {}), kindOf(plural).cells?.(created(plural, {}), now)]).not.toThrow();
  });
});

describe("create rejects", () => {
  const pod = (spec: Fields): Fields => ({ spec: { containers: [container], ...spec } });
  const inContainer = (fields: Fields): Fields => ({ spec: { containers: [{ ...container, ...fields }] } });
  const deployment = (spec: Fields): Fields => ({ spec: { selector, template, ...spec } });
  const job = (spec: Fields): Fields => ({ spec: { template: jobTemplate, ...spec } });
  const service = (spec: Fields): Fields => ({ spec: { ports: [{ port: 80 }], ...spec } });
  const mounting = (name: string): Fields =>
    deployment({
      template: { ...template, spec: { containers: [{ ...container, volumeMounts: [{ name, mountPath: "/data" }] }] } },
      volumeClaimTemplates: [{ metadata: { name: "data" }, spec: claimSpec }],
    });
  const cases: readonly (readonly [string, Fields, readonly string[]])[] = [
    ["statefulsets", mounting("data"), []],
    ["pods", pod({ containers: [] }), ["FieldValueRequired spec.containers"]],
    [
      "pods",
      inContainer({ resources: { limits: { gpu: "1" } } }),
      [
        // It is neither a standard resource nor one for containers.
        "FieldValueInvalid spec.containers[0].resources.limits[gpu]",
        "FieldValueInvalid spec.containers[0].resources.limits[gpu]",
        "FieldValueInvalid spec.containers[0].resources.requests[gpu]",
        "FieldValueInvalid spec.containers[0].resources.requests[gpu]",
      ],
    ],
    ["pods", inContainer({ livenessProbe: {} }), ["FieldValueRequired spec.containers[0].livenessProbe"]],
    [
      "pods",
      inContainer({ livenessProbe: { tcpSocket: { port: 0 } } }),
      ["FieldValueInvalid spec.containers[0].livenessProbe.tcpSocket.port"],
    ],
    [
      "pods",
      inContainer({ livenessProbe: { tcpSocket: { port: 1 }, successThreshold: 2 } }),
      ["FieldValueInvalid spec.containers[0].livenessProbe.successThreshold"],
    ],
    [
      "pods",
      inContainer({ lifecycle: { preStop: { exec: {} } } }),
      ["FieldValueRequired spec.containers[0].lifecycle.preStop.exec.command"],
    ],
    [
      "pods",
      inContainer({ env: [{ name: "A", value: "x", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }] }),
      ["FieldValueInvalid spec.containers[0].env[0].valueFrom"],
    ],
    [
      "pods",
      inContainer({ env: [{ name: "A", valueFrom: { fieldRef: { fieldPath: "spec.containers" } } }] }),
      ["FieldValueInvalid spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"],
    ],
    [
      "pods",
      inContainer({ env: [{ name: "A", valueFrom: { fieldRef: { fieldPath: "status.phase" } } }] }),
      ["FieldValueNotSupported spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"],
    ],
    [
      "pods",
      inContainer({ resources: { limits: { "example.com/gpu": "1.5" }, requests: { "example.com/gpu": "2" } } }),
      [
        "FieldValueInvalid spec.containers[0].resources.limits[example.com/gpu]",
        "FieldValueInvalid spec.containers[0].resources.requests",
      ],
    ],
    ["pods", inContainer({ envFrom: [{}] }), ["FieldValueInvalid spec.containers[0].envFrom"]],
    ["pods", pod({ initContainers: [container] }), ["FieldValueDuplicate spec.initContainers[0].name"]],
    [
      "pods",
      pod({ initContainers: [{ name: "i", image: "x", readinessProbe: { exec: { command: ["x"] } } }] }),
      ["FieldValueForbidden spec.initContainers[0].readinessProbe"],
    ],
    [
      "pods",
      pod({ volumes: [{ name: "v", emptyDir: {}, hostPath: { path: "/x" } }] }),
      ["FieldValueForbidden spec.volumes[0].hostPath"],
    ],
    [
      "pods",
      pod({ volumes: [{ name: "v", hostPath: { path: "/x/../y" } }] }),
      ["FieldValueInvalid spec.volumes[0].hostPath.path"],
    ],
    ["pods", pod({ volumes: [{ name: "v" }, { name: "v" }] }), ["FieldValueDuplicate spec.volumes[1].name"]],
    [
      "pods",
      pod({ volumes: [{ name: "v", secret: { secretName: "s", items: [{ key: "k", path: "../x" }] } }] }),
      ["FieldValueInvalid spec.volumes[0].secret.items[0].path"],
    ],
    [
      "pods",
      pod({ tolerations: [{ key: "k", operator: "Exists", value: "v" }] }),
      ["FieldValueInvalid spec.tolerations[0].operator"],
    ],
    ["pods", pod({ schedulingGates: [{ name: "g" }], nodeName: "n" }), ["FieldValueForbidden spec.nodeName"]],
    ["pods", pod({ hostname: "A_b" }), ["FieldValueInvalid spec.hostname"]],
    ["services", service({ clusterIP: "10.0.0.1" }), ["FieldValueInvalid spec.clusterIPs"]],
    ["services", service({ type: "NodePort", clusterIP: "None" }), ["FieldValueInvalid spec.clusterIPs[0]"]],
    [
      "services",
      service({ type: "NodePort", ports: [{ port: 80, nodePort: 80 }] }),
      ["FieldValueInvalid spec.ports[0].nodePort"],
    ],
    ["services", service({ ports: [{ port: 80, nodePort: 30_000 }] }), ["FieldValueForbidden spec.ports[0].nodePort"]],
    ["services", { spec: { type: "ExternalName" } }, ["FieldValueRequired spec.externalName"]],
    [
      "services",
      { spec: { type: "ExternalName", externalName: "a.b", clusterIP: "10.96.0.77" } },
      ["FieldValueForbidden spec.clusterIPs"],
    ],
    ["services", service({ selector: { "a b": "c" } }), ["FieldValueInvalid spec.selector"]],
    ["deployments", deployment({ selector: {} }), ["FieldValueInvalid spec.selector"]],
    [
      "deployments",
      deployment({ selector: { matchExpressions: [{ key: "a", operator: "In" }] } }),
      ["FieldValueRequired spec.selector.matchExpressions[0].values", "FieldValueInvalid spec.selector"],
    ],
    [
      "deployments",
      deployment({ strategy: { rollingUpdate: { maxUnavailable: "half" } } }),
      ["FieldValueInvalid spec.strategy.rollingUpdate.maxUnavailable"],
    ],
    ["deployments", deployment({ minReadySeconds: 600 }), ["FieldValueInvalid spec.progressDeadlineSeconds"]],
    ["statefulsets", mounting("elsewhere"), ["FieldValueNotFound spec.template.spec.containers[0].volumeMounts[0].name"]],
    ["statefulsets", deployment({ podManagementPolicy: "Any" }), ["FieldValueInvalid spec.podManagementPolicy"]],
    [
      "statefulsets",
      deployment({ volumeClaimTemplates: [{ metadata: { name: "d" }, spec: {} }] }),
      [
        "FieldValueRequired spec.volumeClaimTemplates[0].spec.accessModes",
        "FieldValueRequired spec.volumeClaimTemplates[0].spec.resources[storage]",
      ],
    ],
    [
      "daemonsets",
      deployment({ updateStrategy: { rollingUpdate: { maxUnavailable: 0 } } }),
      ["FieldValueRequired spec.updateStrategy.rollingUpdate.maxUnavailable"],
    ],
    [
      "jobs",
      job({ completionMode: "Indexed", completions: undefined, parallelism: 2 }),
      ["FieldValueRequired spec.completions"],
    ],
    ["jobs", job({ template: { spec: { containers: [container] } } }), ["FieldValueRequired spec.template.spec.restartPolicy"]],
    [
      "jobs",
      job({ template: { ...jobTemplate, metadata: { labels: { "job-name": "other" } } } }),
      ["FieldValueInvalid spec.template.metadata.labels[job-name]"],
    ],
    [
      "jobs",
      job({ manualSelector: true }),
      ["FieldValueRequired spec.selector", "FieldValueInvalid spec.template.metadata.labels"],
    ],
    ["jobs", job({ selector, template: { ...jobTemplate, ...labelled } }), ["FieldValueInvalid spec.selector"]],
    ["jobs", job({ podFailurePolicy: { rules: [failJob] } }), []],
    [
      "jobs",
      job({ podFailurePolicy: { rules: [{ action: "Ignore" }, { ...failJob, onPodConditions: [{ type: "Ready" }] }] } }),
      ["FieldValueInvalid spec.podFailurePolicy.rules[0]", "FieldValueInvalid spec.podFailurePolicy.rules[1]"],
    ],
    [
      "jobs",
      job({ podFailurePolicy: { rules: [{ action: "Retry", onExitCodes: { values: [] } }, { action: "FailIndex" }] } }),
      [
        "FieldValueNotSupported spec.podFailurePolicy.rules[0].action",
        "FieldValueRequired spec.podFailurePolicy.rules[0].onExitCodes.operator",
        "FieldValueInvalid spec.podFailurePolicy.rules[0].onExitCodes.values",
        "FieldValueInvalid spec.podFailurePolicy.rules[1].action",
        "FieldValueInvalid spec.podFailurePolicy.rules[1]",
      ],
    ],
    [
      "jobs",
      job({
        podFailurePolicy: {
          rules: [{ action: "FailJob", onExitCodes: { operator: "In", containerName: "other", values: [0, 2, 2, 1] } }],
        },
      }),
      [
        "FieldValueInvalid spec.podFailurePolicy.rules[0].onExitCodes.containerName",
        "FieldValueInvalid spec.podFailurePolicy.rules[0].onExitCodes.values[0]",
        "FieldValueDuplicate spec.podFailurePolicy.rules[0].onExitCodes.values[2]",
        "FieldValueInvalid spec.podFailurePolicy.rules[0].onExitCodes.values",
      ],
    ],
    [
      "jobs",
      job({ podFailurePolicy: { rules: [{ action: "Count", onPodConditions: [{ type: "a b", status: "Maybe" }] }] } }),
      [
        "FieldValueInvalid spec.podFailurePolicy.rules[0].onPodConditions[0].type",
        "FieldValueNotSupported spec.podFailurePolicy.rules[0].onPodConditions[0].status",
      ],
    ],
    [
      "rolebindings",
      { roleRef: { kind: "Role", name: "r" }, subjects: [{ kind: "ServiceAccount", name: "No_Name" }] },
      ["FieldValueInvalid subjects[0].name"],
    ],
    [
      "services",
      { spec: { ports: [{ port: 80 }], externalIPs: ["127.0.0.1", "192.0.2.1"] } },
      ["FieldValueInvalid spec.externalIPs[0]"],
    ],
    [
      "cronjobs",
      { spec: { schedule: "61 * * * *", jobTemplate: { spec: { template: jobTemplate } } } },
      ["FieldValueInvalid spec.schedule"],
    ],
    [
      "cronjobs",
      { spec: { schedule: "@daily", timeZone: "Mars/Base", jobTemplate: { spec: { template: jobTemplate } } } },
      ["FieldValueInvalid spec.timeZone"],
    ],
    ["poddisruptionbudgets", { spec: { minAvailable: 1, maxUnavailable: 1 } }, ["FieldValueInvalid spec"]],
    [
      "persistentvolumes",
      { spec: { accessModes: ["ReadWriteOnce"], capacity: { storage: "1Gi" } } },
      ["FieldValueRequired spec"],
    ],
    ["persistentvolumeclaims", { spec: { ...claimSpec, accessModes: ["Often"] } }, ["FieldValueNotSupported spec.accessModes"]],
    ["priorityclasses", { value: 2_000_000_000 }, ["FieldValueForbidden value"]],
    [
      "endpointslices",
      { addressType: "IPv4", endpoints: [{ addresses: ["here"] }] },
      ["FieldValueInvalid endpoints[0].addresses[0]"],
    ],
    ["nodes", { spec: { taints: [{ key: "k", effect: "Never" }] } }, ["FieldValueNotSupported metadata.taints[0].effect"]],
    ["ingresses", { spec: {} }, ["FieldValueInvalid spec"]],
    ["networkpolicies", { spec: { ingress: [{ from: [{}] }] } }, ["FieldValueRequired spec.ingress[0].from[0]"]],
    [
      "horizontalpodautoscalers",
      { spec: { minReplicas: 5, maxReplicas: 3, scaleTargetRef: { apiVersion: "apps/v1", kind: "D", name: "a" } } },
      ["FieldValueInvalid spec.maxReplicas"],
    ],
  ];
  it.each(cases)("%s %o", (plural, fields, expected) => {
    expect(refusals(plural, fields)).toEqual(expected);
  });
});

describe("update rejects", () => {
  const set = { spec: { selector, template, serviceName: "s" } };
  const other = { matchLabels: { app: "b" } };
  const otherTemplate = { metadata: { labels: { app: "b" } }, spec: { containers: [container] } };
  const cases: readonly (readonly [string, string, Fields, Fields, readonly string[]])[] = [
    [
      "pods",
      "a node",
      { spec: { containers: [container] } },
      { spec: { containers: [container], serviceAccountName: "default", nodeName: "n" } },
      ["FieldValueForbidden spec"],
    ],
    [
      "pods",
      "nothing, what admission added is left out",
      { spec: { containers: [container] } },
      { spec: { containers: [container], serviceAccountName: "default" } },
      [],
    ],
    [
      "replicasets",
      "the selector",
      { spec: { selector, template } },
      { spec: { selector: other, template: otherTemplate } },
      ["FieldValueInvalid spec.selector"],
    ],
    [
      "daemonsets",
      "the selector",
      { spec: { selector, template } },
      { spec: { selector: other, template: otherTemplate } },
      ["FieldValueInvalid spec.selector"],
    ],
    ["statefulsets", "the name of the Service", set, { spec: { ...set.spec, serviceName: "t" } }, ["FieldValueForbidden spec"]],
    ["statefulsets", "nothing, the replicas", set, { spec: { ...set.spec, replicas: 4 } }, []],
    [
      "persistentvolumes",
      "the source",
      { spec: { accessModes: ["ReadWriteOnce"], capacity: { storage: "1Gi" }, hostPath: { path: "/x" } } },
      { spec: { accessModes: ["ReadWriteOnce"], capacity: { storage: "1Gi" }, hostPath: { path: "/y" } } },
      ["FieldValueForbidden spec.persistentvolumesource"],
    ],
    ["storageclasses", "the provisioner", { provisioner: "x" }, { provisioner: "y" }, ["FieldValueForbidden provisioner"]],
    [
      "controllerrevisions",
      "the data",
      { revision: 1, data: { a: 1 } },
      { revision: 2, data: { a: 2 } },
      ["FieldValueInvalid data"],
    ],
    [
      "services",
      "the class of a balancer, by removing it",
      { spec: { type: "LoadBalancer", ports: [{ port: 1 }], loadBalancerClass: "a.io/b" } },
      { spec: { type: "LoadBalancer", ports: [{ port: 1 }] } },
      ["FieldValueInvalid spec.loadBalancerClass"],
    ],
    [
      "services",
      "nothing, the type with its class",
      { spec: { type: "LoadBalancer", ports: [{ port: 1 }], loadBalancerClass: "a.io/b" } },
      { spec: { type: "ClusterIP", ports: [{ port: 1 }] } },
      [],
    ],
    [
      "csinodes",
      "a driver's ID, adding a driver and changing what is allocatable",
      {
        spec: {
          drivers: [
            { name: "a", nodeID: "n" },
            { name: "b", nodeID: "n" },
          ],
        },
      },
      {
        spec: {
          drivers: [
            { name: "a", nodeID: "m" },
            { name: "b", nodeID: "n", allocatable: { count: 2 } },
            { name: "c", nodeID: "n" },
          ],
        },
      },
      ["FieldValueInvalid spec.drivers"],
    ],
    [
      "nodes",
      "what is set once",
      { spec: { podCIDRs: ["10.0.0.0/24", "fd00::/64"], providerID: "p" } },
      { spec: { podCIDRs: ["10.0.1.0/24", "fd01::/64"], providerID: "q", externalID: "e" } },
      [
        "FieldValueForbidden spec.podCIDRs",
        "FieldValueForbidden spec.podCIDRs",
        "FieldValueForbidden spec.providerID",
        "FieldValueForbidden spec.externalID",
      ],
    ],
    ["nodes", "nothing, setting it first", { spec: {} }, { spec: { podCIDR: "10.0.0.0/24", providerID: "p" } }, []],
    ["priorityclasses", "the value", { value: 1 }, { value: 2 }, ["FieldValueForbidden value"]],
    [
      "endpointslices",
      "the type",
      { addressType: "IPv4", endpoints: [] },
      { addressType: "IPv6", endpoints: [] },
      ["FieldValueInvalid addressType"],
    ],
  ];
  it.each(cases)("%s: %s", (plural, _what, before, after, expected) => {
    expect(updateRefusals(plural, before, after)).toEqual(expected);
  });
});

describe("Pods", () => {
  it("have a QoS class by their requests and limits", () => {
    const classOf = (resources: Fields): unknown =>
      valueAt(created("pods", { spec: { containers: [{ ...container, resources }] } }), "status", "qosClass");
    expect(classOf({})).toBe("BestEffort");
    expect(classOf({ requests: { cpu: "1" } })).toBe("Burstable");
    expect(classOf({ limits: { cpu: "1", memory: "1Gi" } })).toBe("Guaranteed");
    expect(classOf({ limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "500m" } })).toBe("Burstable");
  });

  it("on the host network default host ports, in Pods but not in templates", () => {
    const spec = { hostNetwork: true, containers: [{ ...container, ports: [{ containerPort: 80 }] }] };
    const port = (object: unknown, ...path: string[]): unknown => valueAt(object, ...path, "containers", 0, "ports", 0);
    expect(port(created("pods", { spec }), "spec")).toEqual({ containerPort: 80, hostPort: 80, protocol: "TCP" });
    const deployment = created("deployments", { spec: { selector, template: { ...template, spec } } });
    expect(port(deployment, "spec", "template", "spec")).toEqual({ containerPort: 80, protocol: "TCP" });
  });

  it("keep their own tolerations of node failures", () => {
    const own = { key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute", tolerationSeconds: 5 };
    const pod = created("pods", { spec: { containers: [container], tolerations: [own] } });
    expect(listAt(pod, "spec", "tolerations").map((one) => valueAt(one, "tolerationSeconds"))).toEqual([5, 300]);
  });

  const state = (status: Fields, fields: Fields = {}): readonly unknown[] =>
    kindOf("pods")
      .cells?.(objectOf(kindOf("pods"), { spec: { containers: [container] }, status, ...fields }), now)
      .slice(0, 3) ?? [];
  it.each<[string, Fields, Fields, readonly unknown[]]>([
    [
      "that initialize",
      { phase: "Pending", initContainerStatuses: [{ name: "i", state: { running: {} } }] },
      { spec: { containers: [container], initContainers: [container, container] } },
      ["0/1", "Init:0/2", "0"],
    ],
    [
      "whose init container fails",
      {
        phase: "Pending",
        initContainerStatuses: [{ name: "i", restartCount: 2, state: { waiting: { reason: "CrashLoopBackOff" } } }],
      },
      {},
      ["0/1", "Init:CrashLoopBackOff", "2"],
    ],
    [
      "that end",
      { phase: "Running", containerStatuses: [{ name: "c", state: { running: {} }, ready: true }] },
      { metadata: { deletionTimestamp: "2026-01-01T00:09:00Z" } },
      ["1/1", "Terminating", "0"],
    ],
    [
      "that were killed",
      { phase: "Failed", containerStatuses: [{ name: "c", state: { terminated: { exitCode: 137, signal: 9 } } }] },
      {},
      ["0/1", "Signal:9", "0"],
    ],
    [
      "that restarted",
      {
        phase: "Running",
        containerStatuses: [
          {
            name: "c",
            ready: true,
            restartCount: 3,
            state: { running: {} },
            lastState: { terminated: { exitCode: 1, finishedAt: "2026-01-01T00:08:00Z" } },
          },
        ],
      },
      {},
      ["1/1", "Running", "3 (2m ago)"],
    ],
    ["that were evicted", { phase: "Failed", reason: "Evicted" }, {}, ["0/1", "Evicted", "0"]],
  ])("%s say so", (_what, status, fields, expected) => {
    expect(state(status, fields)).toEqual(expected);
  });
});

describe("Jobs", () => {
  it("select their Pods by uid under current and legacy labels", () => {
    const job = created("jobs", { spec: { template: jobTemplate } });
    const labels = {
      "batch.kubernetes.io/controller-uid": "uid-1",
      "batch.kubernetes.io/job-name": "a",
      "controller-uid": "uid-1",
      "job-name": "a",
    };
    expect(mapAt(job, "spec", "template", "metadata", "labels")).toEqual(labels);
    expect(job.metadata.labels).toEqual(labels);
    expect(mapAt(job, "spec", "selector")).toEqual({ matchLabels: { "batch.kubernetes.io/controller-uid": "uid-1" } });
  });

  it("run one Pod to completion unless parallelism is set", () => {
    const counts = (spec: Fields): unknown[] => {
      const job = created("jobs", { spec: { template: jobTemplate, ...spec } });
      return [valueAt(job, "spec", "completions"), valueAt(job, "spec", "parallelism"), valueAt(job, "spec", "backoffLimit")];
    };
    expect(counts({})).toEqual([1, 1, 6]);
    expect(counts({ parallelism: 3 })).toEqual([undefined, 3, 6]);
    expect(counts({ completions: 4 })).toEqual([4, 1, 6]);
  });
});

describe("PersistentVolumeClaims", () => {
  const storageClass = (name: string, time: string, isDefault: boolean): StoredObject => {
    const metadata = {
      name,
      creationTimestamp: time,
      annotations: { "storageclass.kubernetes.io/is-default-class": String(isDefault) },
    };
    const object = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata, provisioner: "x" } as KubernetesObject;
    return { key: `storage.k8s.io/storageclasses//${name}`, revision: 1, bytes: new Uint8Array(), object };
  };
  const items = [
    storageClass("old", "2026-01-01T00:00:00Z", true),
    storageClass("new", "2026-01-02T00:00:00Z", true),
    storageClass("other", "2026-01-03T00:00:00Z", false),
  ];
  const store = {
    get: () => undefined,
    list: (prefix: string) => ({ items: items.filter(({ key }) => key.startsWith(prefix)), revision: 1 }),
    watch: () => ({ close: () => undefined }),
  };
  const claims = builtinKinds({ clock: { now: () => now }, reviews: noReviews, store }).find(
    ({ plural }) => plural === "persistentvolumeclaims",
  );

  it.each([
    ["get the newest default class", {}, "new"],
    ["keep the class that they name", { storageClassName: "old" }, "old"],
    ["keep it that they want none", { storageClassName: "" }, ""],
  ])("%s", (_what, fields, expected) => {
    if (claims === undefined) throw new Error("claims are not served");
    const claim = objectOf(claims, { spec: { ...claimSpec, ...fields } });
    claims.strategy.prepareForCreate?.(claim);
    expect(valueAt(claim, "spec", "storageClassName")).toBe(expected);
  });
});
