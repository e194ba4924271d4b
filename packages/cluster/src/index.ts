export { type ClusterUser, collectorUser, controllersUser, nodeUser, proxyUser } from "./access.ts";
export { clusterControllers, type ControllerHost, garbageCollection } from "./environment-controllers.ts";
export { type ServedKinds, storedKinds } from "./stored-kinds.ts";
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
export type { ContainerHandle } from "./kubelet/container/container-handle.ts";
export { type Kubelet, type KubeletOptions, startKubelet } from "./kubelet/kubelet.ts";
export { openPodRuntimes, type PodRuntime, PodRuntimes, type PodRuntimesOptions } from "./kubelet/runtimes/pod-runtimes.ts";
export type { PodImages } from "./kubelet/runtimes/pod-images.ts";
export { ensureRuntimeClasses } from "./kubelet/runtimes/runtime-classes.ts";
export { type PodHandler, type PodHandlersOptions, podHandlers } from "./kubelet/pod-handlers.ts";
export { openPodPort, type PodPort } from "./kubelet/streaming/port-forward-client.ts";
export { endpointPorts } from "./service/endpoint-ports.ts";
export { type ServiceProxy, type ServiceProxyOptions, startServiceProxy } from "./service-proxy/service-proxy.ts";
export { createVolumeControllers, type VolumeControllerOptions } from "./persistent-volume/volume-controllers.ts";
export { ensureStandardClass } from "./persistent-volume/standard-class.ts";
export { createWorkloadControllers } from "./workload-controllers.ts";
export { type IssueToken, issueTokensBy } from "./kubelet/node/node-objects.ts";
export { machineName } from "./kubelet/node/node-registration.ts";
