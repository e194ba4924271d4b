import { StatusError } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { applyAsServer } from "../apply-as-server.ts";
import type { Handle } from "../endpoints/outcome.ts";
import { textAt } from "../registry/object-fields.ts";
import { systemUser } from "../system-user.ts";

/** Where the API server can be reached. */
export interface KubernetesServiceOptions {
  /** The cluster IP of the Service. */
  readonly clusterIp: string;
  /** The address block of Services: `127.200.0.0/16`. */
  readonly serviceCidr: string;
  /** The current time in milliseconds. */
  readonly now: () => number;
  /** The address and port the server listens on. */
  readonly address: string;
  readonly port: number;
}

const metadata = { name: "kubernetes", namespace: "default" };

/**
 * Creates or updates the Service `default/kubernetes` with its Endpoints and EndpointSlice, through which Pods find the API server, and
 * ServiceCIDR `kubernetes`, like kube-apiserver does when it starts.
 */
export async function publishKubernetesService(handle: Handle, options: KubernetesServiceOptions): Promise<void> {
  const { clusterIp, address, port } = options;
  await publishServiceCidr(handle, options);
  const core = "/api/v1/namespaces/default";
  await deleteUnlessAt(handle, `${core}/services/kubernetes`, clusterIp);
  await applyAsServer(handle, `${core}/services/kubernetes`, {
    apiVersion: "v1",
    kind: "Service",
    metadata: { ...metadata, labels: { component: "apiserver", provider: "kubernetes" } },
    spec: {
      type: "ClusterIP",
      clusterIP: clusterIp,
      clusterIPs: [clusterIp],
      ports: [{ name: "https", protocol: "TCP", port: 443, targetPort: port }],
    },
  });
  await applyAsServer(handle, `${core}/endpoints/kubernetes`, {
    apiVersion: "v1",
    kind: "Endpoints",
    metadata: { ...metadata, labels: { "endpointslice.kubernetes.io/skip-mirror": "true" } },
    subsets: [{ addresses: [{ ip: address }], ports: [{ name: "https", port, protocol: "TCP" }] }],
  });
  await applyAsServer(handle, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { ...metadata, labels: { "kubernetes.io/service-name": "kubernetes" } },
    addressType: address.includes(":") ? "IPv6" : "IPv4",
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: "https", port, protocol: "TCP" }],
  });
}

/** Deletes the Service if it has another address, which is immutable: the network of Services changes when another data directory uses it. */
async function deleteUnlessAt(handle: Handle, path: string, clusterIp: string): Promise<void> {
  const existing = await handle({ method: "GET", path, user: systemUser });
  if (existing.kind !== "object" || textAt(existing.object.object, "spec", "clusterIP") === clusterIp) return;
  const outcome = await handle({ method: "DELETE", path, user: systemUser });
  if (outcome.kind === "status" && outcome.status.status === "Failure") throw new StatusError(outcome.status);
}

const serviceCidrs = "/apis/networking.k8s.io/v1/servicecidrs";

async function publishServiceCidr(handle: Handle, { serviceCidr, now }: KubernetesServiceOptions): Promise<void> {
  const name = "kubernetes";
  const user = systemUser;
  const existing = await handle({ method: "GET", path: `${serviceCidrs}/${name}`, user });
  if (existing.kind === "object") return;
  const body = { apiVersion: "networking.k8s.io/v1", kind: "ServiceCIDR", metadata: { name } };
  await applyAsServer(handle, `${serviceCidrs}/${name}`, { ...body, spec: { cidrs: [serviceCidr] } });
  const message = "Kubernetes default Service CIDR is ready";
  const lastTransitionTime = formatTime(now());
  const condition = { type: "Ready", status: "True", reason: "", message, lastTransitionTime };
  await applyAsServer(handle, `${serviceCidrs}/${name}/status`, { ...body, status: { conditions: [condition] } });
}
