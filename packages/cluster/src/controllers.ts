/*
 * The single controllers that `startCluster` combines, for callers that need some of them.
 */
export {
  type GarbageCollector,
  type GarbageCollectorOptions,
  startGarbageCollector,
} from "./garbage-collector/garbage-collector.ts";
export { decideGarbage, type GarbageAction, type OwnerState } from "./garbage-collector/garbage-decision.ts";
export { type GraphNode, ObjectGraph } from "./garbage-collector/object-graph.ts";
export { type NamespaceControllerOptions, startNamespaceController } from "./namespace/namespace-controller.ts";
export { decideNamespace, type NamespaceAction } from "./namespace/namespace-decision.ts";
export { createVolumeControllers, type VolumeControllerOptions } from "./persistent-volume/volume-controllers.ts";
export { ensureStandardClass } from "./persistent-volume/standard-class.ts";
export { createWorkloadControllers } from "./workload-controllers.ts";
