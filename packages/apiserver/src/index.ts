export {
  type AdmissionChain,
  type AdmissionRequest,
  type AdmissionStep,
  createAdmissionChain,
} from "./admission/admission.ts";
export { createNodeProxy } from "./endpoints/proxy/reverse-proxy.ts";
export type { SubresourceHandler } from "./endpoints/subresources/pod-subresources.ts";
export type { Call, EndpointContext } from "./endpoints/call.ts";
export type * from "./endpoints/outcome.ts";
export type { Authorize } from "./endpoints/pipeline.ts";
export { createSeededRandom, type RandomSource, systemRandom } from "./endpoints/random-source.ts";
export {
  type NonResourceRequestInfo,
  type RequestInfo,
  requestInfo,
  type ResourceRequestInfo,
} from "./endpoints/request-info.ts";
export { createInProcessTransport, type InProcessOptions } from "./in-process-transport.ts";
export type { ResourceTable, ServedResource, Strategy, Subresource, UserInfo, Verb } from "./registry/served-resource.ts";
export { type ApiServer, type ApiServerOptions, createApiServer } from "./server.ts";
export { systemUser } from "./system-user.ts";
export { openStore, type OpenStoreOptions } from "./storage/open-store.ts";
export {
  type Store,
  type StoredObject,
  type StoreEvent,
  storageKey,
  type StorePage,
  type WriteResult,
} from "./storage/store.ts";
export { AuditError, type AuditErrorCode, isAuditError } from "./audit/audit-error.ts";
export type { AuditLogFile } from "./audit/audit-log.ts";
export type { MetricsSource } from "./registry/kinds/node/metrics.ts";
export { serveApi } from "./serving/serve-api.ts";
export type { AuditOptions, ServedApi, ServeApiOptions } from "./serving/serve-options.ts";
