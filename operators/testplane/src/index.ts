export type { Expectation, ExpectationResult, Extractor, StepCondition } from "./api/expectation.ts";
export {
  IntegrationTest,
  type IntegrationTestSpec,
  type IntegrationTestStatus,
  type RoundSummary,
  type StepStatus,
  type TestStep,
} from "./api/integration-test.ts";
export { type HealthCheck, LoadTest, type LoadTestSpec, type LoadTestStatus } from "./api/load-test.ts";
export * from "./api/names.ts";
export type { ResourceRef, ResourceSelector } from "./api/resource-ref.ts";
export { validateIntegrationTest } from "./manifests/validate-integration-test.ts";
export { validateLoadTest } from "./manifests/validate-load-test.ts";
export { checkNames, extractorNames } from "./functions/registry.ts";
export type { KindSchemas } from "./manifests/validate-known-kinds.ts";
export { createTestplane, testplane, type TestplaneOptions } from "./operator.ts";
