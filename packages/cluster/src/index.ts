export { type ClusterUser, collectorUser, controllersUser, nodeUser, proxyUser } from "./access.ts";
export type { CertificateSigner } from "./certificates/signing-controller.ts";
export { type ClusterDns, type ClusterDnsOptions, startClusterDns } from "./cluster-dns/cluster-dns.ts";
export { ClusterError, type ClusterErrorCode } from "./cluster-error.ts";
export { isolationSources, type IsolationApi, mayUseRuntimeClass } from "./pod-isolation/api-access.ts";
export {
  type IsolationRequest,
  isolationAnnotation,
  podIsolation,
  type PodIsolationOptions,
  type PodIsolationStep,
  type RequestUser,
} from "./pod-isolation/pod-isolation.ts";
export { type ServedKinds, storedKinds } from "./stored-kinds.ts";
export type { KindSource } from "./garbage-collector/object-monitor.ts";
export { type Cluster, type ClusterOptions, startCluster } from "./start-cluster.ts";
export type { ContainerHandle } from "./kubelet/container/container-handle.ts";
export { blockRange, type PodAddressRange } from "./kubelet/node/address-pool.ts";
export { type Kubelet, type KubeletOptions, startKubelet } from "./kubelet/kubelet.ts";
export { openPodRuntimes, type PodRuntime, PodRuntimes, type PodRuntimesOptions } from "./kubelet/runtimes/pod-runtimes.ts";
export type { PodImages } from "./kubelet/runtimes/pod-images.ts";
export { ensureRuntimeClasses } from "./kubelet/runtimes/runtime-classes.ts";
export {
  hasProcessAccess,
  isProcessAccessDenied,
  type KubeletServer,
  type KubeletServerOptions,
  processAccessHeader,
  startKubeletServer,
  resourceMetricsPath,
} from "./kubelet/kubelet-server.ts";
export { type NodeServer, type NodeServerOptions, startNodeServer } from "./kubelet/node-server/node-server.ts";
export type { CallerReviews } from "./kubelet/node-server/node-access.ts";
export { machineId, type Taint } from "./kubelet/node/node-registration.ts";
export { CertificateSigningRequest, type CertificateSigningRequestObject } from "./certificates/signing-decision.ts";
export type { MetricsObjects } from "./kubelet/metrics/resource-metrics.ts";
export { type DiscoveredKinds, type DiscoverKindsOptions, discoverKinds } from "./discovered-kinds.ts";
export { type PodHandler, type PodHandlers, type PodHandlersOptions, podHandlers } from "./kubelet/pod-handlers.ts";
export {
  type NetworkPolicies,
  type NetworkPoliciesOptions,
  startNetworkPolicies,
} from "./pod-network/network-policies.ts";
export { type NetworkRules, type NetworkRulesOptions, startNetworkRules } from "./pod-network/network-rules.ts";
export { PodNetwork, type PodNetworkOptions } from "./pod-network/pod-network.ts";
export type { NetworkNames } from "./pod-network/network-names.ts";
export { type ServiceProxy, type ServiceProxyOptions, startServiceProxy } from "./service-proxy/service-proxy.ts";
export { type IssueToken, issueTokensBy } from "./kubelet/node/node-objects.ts";
export { machineName } from "./kubelet/node/machine-name.ts";
