export { CacheTimeoutError, type CacheWaitOptions } from "./cache/cache-wait.ts";
export {
  cacheOf,
  type CachedKindOptions,
  type CachedNamespaces,
  type CacheOptions,
  type CacheSelection,
  type Transform,
} from "./cache/cache-options.ts";
export * from "./reconcile/controller-runner.ts";
export * from "./manager/create-manager.ts";
export * from "./events/event-recorder.ts";
export * from "./reconcile/finalizer.ts";
export * from "./logging/json-logger.ts";
export * from "./election/leader-election.ts";
export * from "./logging/logger.ts";
export type * from "./manager/manager.ts";
export { metadataOf, type MetadataOnlyType } from "./cache/metadata-only.ts";
export { objectKey } from "./cache/object-id.ts";
export { ignoreConflict } from "./reconcile/ignore-conflict.ts";
export * from "./metrics/metrics.ts";
export * from "./reconcile/predicates.ts";
export {
  type Access,
  type AccessFilter,
  type AccessRequest,
  accessReviewRules,
  reviewedAccess,
} from "./probes/probe-access.ts";
export * from "./probes/probe-server.ts";
export * from "./metrics/prometheus-metrics.ts";
export { type Cache, type CacheListOptions, type IndexFunction, type Read, readOf } from "./cache/cache.ts";
export type * from "./cache/change.ts";
export type * from "./reconcile/controller-definition.ts";
export * from "./reconcile/define-controller.ts";
export * from "./reconcile/result.ts";
export { ReconcileTimeoutError } from "./reconcile/reconcile-attempt.ts";
export type * from "./reconcile/reconcile-trace.ts";
export { mapToOwners } from "./reconcile/request-mapping.ts";
export * from "./manager/run-manager.ts";
export * from "./manager/shutdown.ts";
export * from "./queue/token-bucket.ts";
export * from "./queue/work-queue.ts";
export { Informer, type InformerOptions } from "./informer/informer.ts";
export type { StoreEffect } from "./informer/informer-state.ts";
