import { draft, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import {
  DaemonSet,
  Deployment,
  EndpointSlice,
  Ingress,
  Job,
  NetworkPolicy,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  type PodSpec,
  Service,
  StatefulSet,
  StorageClass,
} from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ApplyConfiguration, Client } from "./client/client.ts";
import { createClient } from "./client/create-client.ts";

/*
 * The types of built-in kinds are written by hand. Here the compiler holds objects against them, and the server, which refuses a
 * field that Kubernetes has not, holds the same objects against its schemas.
 */

let environment: TestEnvironment;
let client: Client;
beforeAll(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
});
afterAll(() => environment.stop());

const labels = { app: "web" };
const selector = { matchLabels: labels, matchExpressions: [{ key: "app", operator: "In" as const, values: ["web"] }] };
const podSpec: PodSpec = {
  containers: [
    {
      name: "web",
      image: "web:1",
      env: [
        { name: "A", value: "1" },
        { name: "B", valueFrom: { secretKeyRef: { name: "s", key: "b", optional: true } } },
      ],
      envFrom: [{ prefix: "P_", configMapRef: { name: "c" } }],
      ports: [{ name: "http", containerPort: 8080, protocol: "TCP" }],
      resources: { requests: { cpu: "100m" }, limits: { memory: "64Mi" } },
      volumeMounts: [{ name: "data", mountPath: "/data", subPathExpr: "$(A)", mountPropagation: "None" }],
      volumeDevices: [{ name: "claim", devicePath: "/dev/xvda" }],
      livenessProbe: { httpGet: { path: "/", port: "http" }, periodSeconds: 5 },
      lifecycle: { preStop: { sleep: { seconds: 5 } }, postStart: { exec: { command: ["true"] } } },
      securityContext: {
        seccompProfile: { type: "RuntimeDefault" },
        appArmorProfile: { type: "Unconfined" },
        seLinuxOptions: { level: "s0" },
        capabilities: { drop: ["ALL"] },
      },
    },
  ],
  affinity: {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [{ key: "kubernetes.io/arch", operator: "In", values: ["amd64"] }] }],
      },
      preferredDuringSchedulingIgnoredDuringExecution: [
        { weight: 1, preference: { matchFields: [{ key: "metadata.name", operator: "In", values: ["a"] }] } },
      ],
    },
    podAntiAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: [
        { weight: 1, podAffinityTerm: { topologyKey: "kubernetes.io/hostname", labelSelector: selector } },
      ],
    },
  },
  tolerations: [{ key: "gpu", operator: "Exists", effect: "NoSchedule" }],
  topologySpreadConstraints: [
    {
      maxSkew: 1,
      topologyKey: "zone",
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector: selector,
      nodeTaintsPolicy: "Honor",
    },
  ],
  volumes: [
    {
      name: "data",
      projected: {
        sources: [
          { serviceAccountToken: { path: "token", audience: "api", expirationSeconds: 3600 } },
          { configMap: { name: "c", items: [{ key: "a", path: "a" }] } },
          { downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
        ],
      },
    },
    { name: "claim", persistentVolumeClaim: { claimName: "claim" } },
    { name: "nfs", nfs: { server: "a", path: "/" } },
    { name: "csi", csi: { driver: "d", volumeAttributes: { a: "b" } } },
    {
      name: "scratch",
      ephemeral: {
        volumeClaimTemplate: { spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } } },
      },
    },
  ],
  dnsConfig: { searches: ["example.com"], options: [{ name: "ndots", value: "1" }] },
  securityContext: { fsGroup: 1, fsGroupChangePolicy: "OnRootMismatch", supplementalGroups: [2] },
  readinessGates: [{ conditionType: "example.com/ready" }],
  priorityClassName: "",
  hostUsers: true,
};
const template = { metadata: { labels }, spec: podSpec };
const claim = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, storageClassName: "fast" };

function sample<T extends KubernetesObject>(type: ResourceType<T>, fields: Omit<ApplyConfiguration<T>, "metadata">) {
  const metadata = { name: "sample", ...(type.scope === "Cluster" ? {} : { namespace: "default" }) };
  const configuration = { metadata, ...fields } as unknown as ApplyConfiguration<T>;
  return { kind: type.kind, apply: () => client.apply(type, configuration, { fieldValidation: "Strict" }) };
}

test.each([
  sample(Pod, { spec: podSpec }),
  sample(Deployment, { spec: { selector, template, strategy: { rollingUpdate: { maxSurge: "10%", maxUnavailable: 1 } } } }),
  sample(DaemonSet, { spec: { selector, template, updateStrategy: { type: "OnDelete" } } }),
  sample(StatefulSet, {
    spec: {
      selector,
      template,
      ordinals: { start: 1 },
      volumeClaimTemplates: [{ metadata: { name: "files" }, spec: claim }],
    },
  }),
  sample(Job, {
    spec: {
      template: { spec: { ...podSpec, restartPolicy: "Never" } },
      completionMode: "Indexed",
      completions: 2,
      backoffLimitPerIndex: 1,
      podFailurePolicy: { rules: [{ action: "FailIndex", onExitCodes: { operator: "In", values: [42] } }] },
      podReplacementPolicy: "Failed",
    },
  }),
  sample(Service, {
    spec: {
      selector: labels,
      ports: [{ name: "http", port: 80, targetPort: "http", protocol: "TCP" }],
      type: "LoadBalancer",
      externalTrafficPolicy: "Local",
      loadBalancerClass: "example.com/lb",
      loadBalancerSourceRanges: ["10.0.0.0/8"],
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 5 } },
      ipFamilyPolicy: "SingleStack",
    },
  }),
  sample(Ingress, {
    spec: {
      ingressClassName: "a",
      rules: [
        {
          host: "a.example.com",
          http: {
            paths: [{ path: "/", pathType: "Prefix", backend: { service: { name: "sample", port: { name: "http" } } } }],
          },
        },
      ],
      tls: [{ hosts: ["a.example.com"], secretName: "tls" }],
    },
  }),
  sample(NetworkPolicy, {
    spec: {
      podSelector: selector,
      policyTypes: ["Ingress", "Egress"],
      ingress: [{ from: [{ podSelector: {}, namespaceSelector: selector }], ports: [{ port: "http" }] }],
      egress: [{ to: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["10.1.0.0/16"] } }], ports: [{ port: 1, endPort: 9 }] }],
    },
  }),
  sample(EndpointSlice, {
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.0.0.1"], conditions: { ready: true }, zone: "a", hints: { forZones: [{ name: "a" }] } }],
  }),
  sample(PersistentVolumeClaim, {
    spec: { ...claim, dataSource: { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: "s" } },
  }),
  sample(PersistentVolume, {
    spec: {
      capacity: { storage: "1Gi" },
      accessModes: ["ReadWriteOnce"],
      csi: { driver: "d", volumeHandle: "h", volumeAttributes: { a: "b" } },
      mountOptions: ["ro"],
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: "a", operator: "Exists" }] }] } },
    },
  }),
  sample(StorageClass, {
    provisioner: "p",
    allowedTopologies: [{ matchLabelExpressions: [{ key: "zone", values: ["a"] }] }],
    mountOptions: ["ro"],
  }),
  sample(Node, { spec: { podCIDR: "10.0.0.0/24", podCIDRs: ["10.0.0.0/24"], taints: [{ key: "a", effect: "NoSchedule" }] } }),
])("the server accepts every field of a typed $kind", async ({ apply }) => {
  await expect(apply()).resolves.toMatchObject({ metadata: { name: "sample" } });
});

test("the server accepts every field of typed statuses", async () => {
  const strict = { fieldValidation: "Strict" } as const;
  const service = draft(await client.get(Service, { namespace: "default", name: "sample" }));
  service.status = { loadBalancer: { ingress: [{ ip: "1.2.3.4", ipMode: "VIP", ports: [{ port: 80, protocol: "TCP" }] }] } };
  expect((await client.updateStatus(Service, service, strict)).status).toMatchObject(service.status);
  const set = draft(await client.get(DaemonSet, { namespace: "default", name: "sample" }));
  set.status = {
    currentNumberScheduled: 1,
    desiredNumberScheduled: 2,
    numberMisscheduled: 0,
    numberReady: 1,
    numberUnavailable: 1,
    collisionCount: 1,
    conditions: [{ type: "A", status: "True", reason: "B", message: "c" }],
  };
  expect((await client.updateStatus(DaemonSet, set, strict)).status).toMatchObject(set.status);
  const node = draft(await client.get(Node, { name: "sample" }));
  node.status = {
    capacity: { cpu: "1" },
    images: [{ names: ["web:1"], sizeBytes: 1 }],
    volumesInUse: ["a"],
    volumesAttached: [{ name: "a", devicePath: "/dev/a" }],
    addresses: [{ type: "InternalIP", address: "10.0.0.1" }],
  };
  expect((await client.updateStatus(Node, node, strict)).status).toMatchObject(node.status);
});
