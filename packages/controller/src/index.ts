export { CacheTimeoutError, type CacheWaitOptions } from "./cache-wait.ts";
export {
  cacheOf,
  type CachedKindOptions,
  type CachedNamespaces,
  type CacheOptions,
  type CacheSelection,
  type Transform,
} from "./cache-options.ts";
export * from "./controller-runner.ts";
export * from "./create-manager.ts";
export * from "./event.ts";
export * from "./event-recorder.ts";
export * from "./finalizer.ts";
export * from "./json-logger.ts";
export * from "./leader-election.ts";
export * from "./lease.ts";
export * from "./logger.ts";
export type * from "./manager.ts";
export { metadataOf, type MetadataOnlyType } from "./metadata-only.ts";
export { keyOfObject } from "./object-id.ts";
export { formatResult, outputFlag } from "./output-flag.ts";
export { unlessMovedOn } from "./optimistic.ts";
export * from "./metrics.ts";
export type * from "./operator.ts";
export * from "./predicates.ts";
export { type Access, type AccessFilter, type AccessRequest, accessReviewRules, reviewedAccess } from "./probe-access.ts";
export * from "./probe-server.ts";
export * from "./prometheus-metrics.ts";
export * from "./reconcile.ts";
export { renderTable } from "./render-table.ts";
export { ReconcileTimeoutError } from "./reconcile-attempt.ts";
export type * from "./reconcile-trace.ts";
export { everyOwner } from "./request-mapping.ts";
export * from "./rules-of.ts";
export * from "./run-manager.ts";
export * from "./runtime-rules.ts";
export * from "./shutdown.ts";
export * from "./start-operator.ts";
export * from "./token-bucket.ts";
export * from "./work-queue.ts";
export { Informer, type InformerOptions } from "./informer.ts";
export type { StoreEffect } from "./informer-state.ts";
