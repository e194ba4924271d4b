import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requestError } from "../../endpoints/testing/send-request.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

const core = "/api/v1/namespaces/default";
const networking = "/apis/networking.k8s.io/v1/namespaces/default";

/** Causes of a create that is not done. */
async function causes(path: string, kind: string, spec: unknown): Promise<readonly string[]> {
  const apiVersion = path.startsWith("/api/") ? "v1" : path.split("/").slice(2, 4).join("/");
  const [, ...rest] = await requestError(environment, "POST", `${path}?dryRun=All`, {
    apiVersion,
    kind,
    metadata: { name: "a" },
    spec,
  });
  return rest;
}

const invalid = "FieldValueInvalid";
const container = { name: "c", image: "i" };

describe("create rejects", () => {
  it.each([
    ["NetworkPolicy", { ingress: [{ from: [{ ipBlock: {} }] }] }, ["FieldValueRequired spec.ingress[0].from[0].ipBlock.cidr"]],
    [
      "NetworkPolicy",
      { ingress: [{ from: [{ ipBlock: { cidr: "x" } }] }] },
      [`${invalid} spec.ingress[0].from[0].ipBlock.cidr`],
    ],
    [
      "NetworkPolicy",
      { egress: [{ to: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["x", "11.0.0.0/16", "10.1.0.0/16"] } }] }] },
      [`${invalid} spec.egress[0].to[0].ipBlock.except[0]`, `${invalid} spec.egress[0].to[0].ipBlock.except[1]`],
    ],
    ["NetworkPolicy", { ingress: [{ ports: [{ endPort: 90 }] }] }, ["FieldValueInvalid spec.ingress[0].ports[0].endPort"]],
    ["NetworkPolicy", { ingress: [{ ports: [{ port: "a", endPort: 90 }] }] }, [`${invalid} spec.ingress[0].ports[0].endPort`]],
    ["NetworkPolicy", { ingress: [{ ports: [{ port: 91, endPort: 90 }] }] }, [`${invalid} spec.ingress[0].ports[0].endPort`]],
    ["NetworkPolicy", { policyTypes: ["Ingress", "Egress", "Ingress"] }, [`${invalid} spec.policyTypes`]],
  ])("%s %j", async (kind, spec, expected) => {
    expect(await causes(`${networking}/networkpolicies`, kind, spec)).toEqual(expected);
  });

  const backend = { service: { name: "s", port: { number: 80 } } };
  const onPath = (path: string, pathType: string): object => ({ rules: [{ http: { paths: [{ path, pathType, backend }] } }] });
  it.each([
    [{ rules: [{ host: "192.0.2.1" }] }, [`${invalid} spec.rules[0].host`]],
    [onPath("/a//b", "Prefix"), [`${invalid} spec.rules[0].http.paths[0].path`]],
    [onPath("a", "ImplementationSpecific"), [`${invalid} spec.rules[0].http.paths[0].path`]],
    [onPath("/a//b", "ImplementationSpecific"), []],
    [{ defaultBackend: { service: { name: "s", port: { name: "A" } } } }, [`${invalid} spec.defaultBackend.service.port.name`]],
    [
      { defaultBackend: backend, ingressClassName: "A_", tls: [{ hosts: ["*.a.b", "A_"], secretName: "B_" }] },
      [`${invalid} spec.ingressClassName`, `${invalid} spec.tls[0].hosts[1]`, `${invalid} spec.tls[0].secretName`],
    ],
  ])("Ingress %j", async (spec, expected) => {
    const reported = await causes(`${networking}/ingresses`, "Ingress", spec);
    expect([...new Set(reported)]).toEqual(expected);
  });

  it.each([
    ["limitranges", "LimitRange", { limits: [{ type: "Foo" }] }, [`${invalid} spec.limits[0].type`]],
    ["limitranges", "LimitRange", { limits: [{ type: "Pod" }, { type: "Pod" }] }, ["FieldValueDuplicate spec.limits[1].type"]],
    [
      "limitranges",
      "LimitRange",
      { limits: [{ type: "PersistentVolumeClaim" }] },
      ["FieldValueRequired spec.limits[0].limits"],
    ],
    [
      "limitranges",
      "LimitRange",
      { limits: [{ type: "Container", default: { cpu: "2" }, max: { cpu: "1" }, defaultRequest: { cpu: "1" } }] },
      [`${invalid} spec.limits[0].default[cpu]`],
    ],
    [
      "limitranges",
      "LimitRange",
      { limits: [{ type: "Pod", maxLimitRequestRatio: { cpu: "500m" } }] },
      [`${invalid} spec.limits[0].maxLimitRequestRatio[cpu]`],
    ],
    [
      "resourcequotas",
      "ResourceQuota",
      { hard: { foo: "1", pods: "1.5" } },
      [`${invalid} spec.hard[foo]`, `${invalid} spec.hard[foo]`, `${invalid} spec.hard[pods]`],
    ],
    ["resourcequotas", "ResourceQuota", { scopes: ["Foo"] }, [`${invalid} spec.scopes`]],
    ["resourcequotas", "ResourceQuota", { scopes: ["Terminating", "NotTerminating"] }, [`${invalid} spec.scopes`]],
    [
      "replicationcontrollers",
      "ReplicationController",
      {},
      ["FieldValueRequired spec.selector", "FieldValueRequired spec.template"],
    ],
    [
      "services",
      "Service",
      { ports: [{ port: 1 }], externalTrafficPolicy: "Local" },
      [`${invalid} spec.externalTrafficPolicy`],
    ],
    ["services", "Service", { ports: [{ port: 1, appProtocol: "a b" }] }, [`${invalid} spec.ports[0].appProtocol`]],
    ["services", "Service", { ports: [{ port: 1 }], ipFamilies: ["IPv5"] }, ["FieldValueNotSupported spec.ipFamilies[0]"]],
    ["services", "Service", { ports: [{ port: 1 }], healthCheckNodePort: 5 }, [`${invalid} spec.healthCheckNodePort`]],
    ["services", "Service", { ports: [{ port: 1 }], loadBalancerClass: "a/b" }, ["FieldValueForbidden spec.loadBalancerClass"]],
    [
      "services",
      "Service",
      { type: "LoadBalancer", ports: [{ port: 1 }], loadBalancerSourceRanges: ["x"] },
      [`${invalid} spec.LoadBalancerSourceRanges[0]`],
    ],
    [
      "pods",
      "Pod",
      { containers: [{ ...container, resources: { requests: { "x.y/z": 1 } } }] },
      ["FieldValueRequired spec.containers[0].resources.limits"],
    ],
    [
      "pods",
      "Pod",
      { containers: [{ ...container, resources: { limits: { "hugepages-2Mi": "2Mi" } } }] },
      ["FieldValueForbidden spec.containers[0].resources"],
    ],
    [
      "pods",
      "Pod",
      { containers: [{ ...container, env: [{ name: "A", valueFrom: { resourceFieldRef: { resource: "limits.x" } } }] }] },
      ["FieldValueNotSupported spec.containers[0].env[0].valueFrom.resourceFieldRef.resource"],
    ],
    [
      "pods",
      "Pod",
      { containers: [{ ...container, envFrom: [{ prefix: "a=", configMapRef: { name: "A_" } }] }] },
      [`${invalid} spec.containers[0].envFrom[0].prefix`, `${invalid} spec.containers[0].envFrom[0].configMapRef.name`],
    ],
    [
      "pods",
      "Pod",
      { hostNetwork: true, containers: [{ ...container, ports: [{ containerPort: 80, hostPort: 81 }] }] },
      [`${invalid} spec.containers[0].ports[0].hostPort`],
    ],
    [
      "pods",
      "Pod",
      { containers: [container], shareProcessNamespace: true, hostPID: true },
      [`${invalid} spec.securityContext.shareProcessNamespace`],
    ],
    [
      "pods",
      "Pod",
      { containers: [container], dnsConfig: { searches: ["A_"], options: [{}] } },
      [`${invalid} spec.dnsConfig.searches[0]`, "FieldValueRequired spec.dnsConfig.options[0]"],
    ],
    [
      "pods",
      "Pod",
      {
        containers: [{ ...container, volumeMounts: [{ name: "v", mountPath: "/x", mountPropagation: "Bidirectional" }] }],
        volumes: [{ name: "v", downwardAPI: { items: [{ path: "a" }] } }],
      },
      [
        "FieldValueRequired spec.volumes[0].downwardAPI",
        "FieldValueNotFound spec.containers[0].volumeMounts[0].name",
        "FieldValueForbidden spec.containers[0].volumeMounts.mountPropagation",
      ],
    ],
  ])("%s %s %j", async (plural, kind, spec, expected) => {
    expect(await causes(`${core}/${plural}`, kind, spec)).toEqual(expected);
  });

  it.each([
    [
      "persistentvolumes",
      "PersistentVolume",
      { accessModes: ["ReadWriteOnce"], hostPath: { path: "/x" } },
      ["FieldValueRequired spec.capacity", "FieldValueNotSupported spec.capacity"],
    ],
    [
      "persistentvolumes",
      "PersistentVolume",
      { accessModes: ["ReadWriteOnce", "ReadWriteOncePod"], capacity: { storage: 1 }, hostPath: { path: "/x" } },
      ["FieldValueForbidden spec.accessModes"],
    ],
    ["nodes", "Node", { podCIDRs: ["x"] }, [`${invalid} spec.podCIDRs[0]`]],
    ["namespaces", "Namespace", { finalizers: ["mine"] }, [`${invalid} spec.finalizers`]],
  ])("%s %s %j", async (plural, kind, spec, expected) => {
    expect(await causes(`/api/v1/${plural}`, kind, spec)).toEqual(expected);
  });
});
