import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTestSpec } from "../api/integration-test.ts";
import { validateCel } from "../assertions/cel-assertion.ts";
import type { TestStep } from "../api/test-step.ts";
import { testVariableNames, validateParameters } from "../templating/test-variables.ts";
import { validateCondition } from "./validate-condition.ts";
import { validateResource } from "./validate-manifest.ts";
import { checkVariables, type StepScope, unknownCluster, validateStep } from "./validate-step.ts";

type Spec = DeepReadonly<IntegrationTestSpec>;

/** Validates an IntegrationTest in `namespace` beyond its schema. Returns one line per error. */
export function validateIntegrationTest(spec: Spec, namespace: string): readonly string[] {
  const errors: string[] = [];
  if (!Array.isArray(spec.steps) || spec.steps.length === 0) return ["spec.steps: must have at least one step"];
  const clusters = (spec.clusters ?? []).map(({ name }) => name);
  const scope: StepScope = { namespace: spec.serviceAccountName === undefined ? namespace : undefined, clusters, errors };
  for (const list of ["steps", "catch", "finally"] as const) validateSteps(spec, list, scope);
  validateNeeds(spec, errors);
  for (const [index, final] of (spec.finalExpectations ?? []).entries()) {
    const path = `spec.finalExpectations[${index}]`;
    errors.push(...unknownCluster(final.cluster, path, clusters));
    validateResource(final.resource, `${path}.resource`, final.cluster === undefined ? scope.namespace : undefined, errors);
    validateCondition(final.expectations, `${path}.expectations`, final.resource, errors, checkVariables);
  }
  if (spec.isolatedNamespace === true && spec.serviceAccountName === undefined)
    errors.push("spec.isolatedNamespace: requires spec.serviceAccountName, whose permissions the test has in that namespace");
  if (clusters.length > 0 && spec.serviceAccountName === undefined)
    errors.push("spec.clusters: requires spec.serviceAccountName, which must be allowed to get the Secrets of the kubeconfigs");
  validateBindings(spec, errors);
  errors.push(...validateParameters(spec));
  return errors;
}

function validateSteps(spec: Spec, list: "steps" | "catch" | "finally", scope: StepScope): void {
  const names = new Set<string>();
  const steps: readonly DeepReadonly<TestStep>[] = spec[list] ?? [];
  for (const [index, step] of steps.entries()) {
    const path = `spec.${list}[${index}]`;
    if (names.has(step.name)) scope.errors.push(`${path}.name: duplicate value ${JSON.stringify(step.name)}`);
    names.add(step.name);
    validateStep(step, path, scope);
    for (const late of ["catch", "finally", "cleanup"] as const)
      for (const [at, each] of (step[late] ?? []).entries()) validateStep(each, `${path}.${late}[${at}]`, scope);
  }
}

/** Steps that need each other would never start. */
function validateNeeds({ steps }: Spec, errors: string[]): void {
  const needs = new Map(steps.map((step) => [step.name, step.needs ?? []]));
  for (const [index, step] of steps.entries()) {
    for (const [at, need] of (step.needs ?? []).entries()) {
      if (!needs.has(need)) errors.push(`spec.steps[${index}].needs[${at}]: step ${JSON.stringify(need)} not found`);
    }
    if (reaches(step.name, step.name, needs, new Set()))
      errors.push(`spec.steps[${index}].needs: must not lead back to the step itself`);
  }
}

function reaches(from: string, to: string, needs: ReadonlyMap<string, readonly string[]>, seen: Set<string>): boolean {
  return (needs.get(from) ?? []).some((need) => {
    if (need === to) return true;
    if (seen.has(need)) return false;
    seen.add(need);
    return reaches(need, to, needs, seen);
  });
}

function validateBindings({ bindings = [] }: Spec, errors: string[]): void {
  const names = new Set<string>();
  for (const [index, { name, cel }] of bindings.entries()) {
    const path = `spec.bindings[${index}]`;
    if (names.has(name)) errors.push(`${path}.name: duplicate value ${JSON.stringify(name)}`);
    names.add(name);
    const error = validateCel(cel, testVariableNames, "any");
    if (error !== undefined) errors.push(`${path}.cel: ${error}`);
  }
}
