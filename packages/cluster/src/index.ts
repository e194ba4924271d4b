export {
  type GarbageCollector,
  type GarbageCollectorOptions,
  startGarbageCollector,
} from "./garbage-collector/garbage-collector.ts";
export { decideGarbage, type GarbageAction, type OwnerState } from "./garbage-collector/garbage-decision.ts";
export { type GraphNode, ObjectGraph } from "./garbage-collector/object-graph.ts";
export type { KindSource } from "./garbage-collector/object-monitor.ts";
export { type NamespaceControllerOptions, startNamespaceController } from "./namespace/namespace-controller.ts";
export { decideNamespace, type NamespaceAction } from "./namespace/namespace-decision.ts";
export { type Cluster, type ClusterOptions, startCluster } from "./start-cluster.ts";
export { type FoundContainer, type Kubelet, type KubeletOptions, startKubelet } from "./kubelet/kubelet.ts";
export { type PodHandler, type PodHandlersOptions, podHandlers } from "./kubelet/pod-handlers.ts";
export { type ServiceProxy, type ServiceProxyOptions, startServiceProxy } from "./service-proxy/service-proxy.ts";
