/*
 * The parts that only an API server needs: server-side apply, structural schemas with pruning, defaults and validation, and CEL.
 * A separate entry, so that controllers do not load it.
 */
export type { FieldNode, FieldSet } from "./field-sets/field-set.ts";
export { applyConfiguration, applyConfigurationInSteps } from "./apply/apply-configuration.ts";
export type { FieldManagementContext } from "./apply/endpoint.ts";
export { embeddedStructs } from "./field-sets/shape.ts";
export { formatFieldsV1, parseFieldsV1 } from "./field-sets/fields-v1.ts";
export { mergeConfiguration, type MergedConfiguration } from "./apply/merge-configuration.ts";
export type { ResetFields } from "./apply/reset-fields.ts";
export { trackUpdate, trackUpdateInSteps } from "./apply/track-update.ts";
export { groupSteps, runSteps, type Steps } from "./values/steps.ts";
export { type AccessCheck, celAuthorizer, type CheckAccess } from "./cel/libraries/authorizer-library.ts";
export { type CelExpression, compileExpression, toCel, type WantedType } from "./cel/expression.ts";
export { type JsonPatchOperations, MutationCompiler } from "./cel/mutation-expression.ts";
export { PolicyTypes } from "./cel/policy-types.ts";
export { ExpressionTypeChecker } from "./cel/type-checker.ts";
export { createRuleEvaluator } from "./cel/rule-evaluator.ts";
export * from "./schema/default.ts";
export * from "./schema/formats.ts";
export * from "./schema/prune.ts";
export { ruleBudgetCauses } from "./schema/rules/rule-budget.ts";
export * from "./schema/structural.ts";
export * from "./schema/validate.ts";
