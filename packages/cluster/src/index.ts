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
export { createVolumeControllers, type VolumeControllerOptions } from "./persistent-volume/volume-controllers.ts";
export { ensureStandardClass } from "./persistent-volume/standard-class.ts";
export { workloadControllers } from "./workload-controllers.ts";
