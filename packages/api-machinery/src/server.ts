/*
 * What a Kubernetes API server does with objects, beside what whoever talks to one needs: server-side apply, the patches,
 * structural schemas with pruning, defaults and validation, and CEL. An entry of its own (`@keelson/api-machinery/server`), so
 * that a controller does not load it.
 */
export type { FieldNode, FieldSet } from "./apply/field-set.ts";
export { applyConfiguration } from "./apply/apply-configuration.ts";
export type { FieldManagementContext } from "./apply/endpoint.ts";
export { formatFieldsV1, parseFieldsV1 } from "./apply/fields-v1.ts";
export type { ResetFields } from "./apply/reset-fields.ts";
export { trackUpdate } from "./apply/track-update.ts";
export { createRuleEvaluator } from "./cel/rule-evaluator.ts";
export * from "./schema/default.ts";
export * from "./schema/formats.ts";
export * from "./schema/prune.ts";
export * from "./schema/structural.ts";
export * from "./schema/validate.ts";
