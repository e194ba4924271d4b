/*
 * What an API server needs that serves this cluster: the users of its components, the isolation of Pods, and the kubelet's paths. It
 * loads neither controllers nor the kubelet.
 */
export { type ClusterUser, collectorUser, controllersUser, nodeUser, proxyUser } from "./access.ts";
export { machineName } from "./kubelet/node/machine-name.ts";
export { processAccessHeader, resourceMetricsPath } from "./kubelet/kubelet-server.ts";
export type { MetricsObjects } from "./kubelet/metrics/resource-metrics.ts";
export { isolationSources, type IsolationApi } from "./pod-isolation/api-access.ts";
export {
  podIsolation,
  type PodIsolationOptions,
  type PodIsolationStep,
  type RequestUser,
} from "./pod-isolation/pod-isolation.ts";
