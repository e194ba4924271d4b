/*
 * What objects use of a ResourceQuota, and what Pods request. Admission of the API server reserves usage, and the controller recounts it.
 */
export { measureQuota, quotaKindsOf, quotaStatus } from "./quota/measure.ts";
export { addAmounts, amountsOf, podResources, type ResourceAmounts } from "./quota/pod-resources.ts";
export { qualityOfService } from "./quota/quality-of-service.ts";
export { matchesScopes } from "./quota/quota-scopes.ts";
export { type QuotaKind, usageOf } from "./quota/quota-usage.ts";
