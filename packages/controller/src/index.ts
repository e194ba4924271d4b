/*
 * What most controllers need: their definition, the cache, the manager, predicates and finalizers. Metrics, probes, events, the work
 * queue, informers, leader election and traces are subpath exports; see README.md.
 */
export { type Cache, type CacheListOptions, type IndexFunction, type Read, readOf } from "./cache/cache.ts";
export { cacheOf, type CacheOptions, type CacheSelection, type Transform } from "./cache/cache-options.ts";
export { CacheStoppedError, CacheTimeoutError, type CacheWaitOptions } from "./cache/cache-wait.ts";
export type * from "./cache/change.ts";
export { metadataOf, type MetadataOnlyType } from "./cache/metadata-only.ts";
export { objectKey } from "./cache/object-id.ts";
export { LeaseLostError } from "./election/leader-election.ts";
export type { EventRecorder } from "./events/event-recorder.ts";
export { createJsonLogger, type JsonLoggerOptions, type LogLevel } from "./logging/json-logger.ts";
export * from "./logging/logger.ts";
export { createManager } from "./manager/create-manager.ts";
export { ManagerStoppedError, NotLeaderError } from "./manager/manager-errors.ts";
export type * from "./manager/manager.ts";
export * from "./manager/run-manager.ts";
export * from "./manager/shutdown.ts";
export type * from "./reconcile/controller-definition.ts";
export * from "./reconcile/define-controller.ts";
export { addFinalizer, removeFinalizer } from "./reconcile/finalizer.ts";
export { ignoreConflict } from "./reconcile/ignore-conflict.ts";
export * from "./reconcile/predicates.ts";
export { ReconcileTimeoutError } from "./reconcile/reconcile-attempt.ts";
export { mapToOwners } from "./reconcile/request-mapping.ts";
export { type Request, type Result, TerminalError } from "./reconcile/result.ts";
