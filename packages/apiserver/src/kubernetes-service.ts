import type { JsonObject } from "@keelson/api-machinery";
import { StatusError } from "@keelson/api-machinery";
import type { Handle } from "./endpoints/outcome.ts";
import { systemUser } from "./server.ts";

/** Where the API server can be reached. */
export interface KubernetesServiceOptions {
  /** The cluster IP of the Service. */
  readonly clusterIp: string;
  /** The address and port the server listens on. */
  readonly address: string;
  readonly port: number;
}

const metadata = { name: "kubernetes", namespace: "default" };

/**
 * Creates or updates the Service `default/kubernetes` with its Endpoints and EndpointSlice, through which Pods find the API server, like
 * kube-apiserver does when it starts.
 */
export async function publishKubernetesService(handle: Handle, options: KubernetesServiceOptions): Promise<void> {
  const { clusterIp, address, port } = options;
  const core = "/api/v1/namespaces/default";
  await apply(handle, `${core}/services/kubernetes`, {
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
  await apply(handle, `${core}/endpoints/kubernetes`, {
    apiVersion: "v1",
    kind: "Endpoints",
    metadata: { ...metadata, labels: { "endpointslice.kubernetes.io/skip-mirror": "true" } },
    subsets: [{ addresses: [{ ip: address }], ports: [{ name: "https", port, protocol: "TCP" }] }],
  });
  await apply(handle, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { ...metadata, labels: { "kubernetes.io/service-name": "kubernetes" } },
    addressType: address.includes(":") ? "IPv6" : "IPv4",
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: "https", port, protocol: "TCP" }],
  });
}

async function apply(handle: Handle, path: string, body: JsonObject): Promise<void> {
  const outcome = await handle({
    method: "PATCH",
    path,
    query: { fieldManager: "kube-apiserver", force: "true" },
    headers: { "content-type": "application/apply-patch+yaml" },
    body,
    user: systemUser,
    userAgent: "kube-apiserver",
  });
  if (outcome.kind === "status") throw new StatusError(outcome.status);
}
