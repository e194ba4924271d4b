import type { DeepReadonly } from "@keelson/api-machinery";
import type { Expectation, StepCondition } from "../api/expectation.ts";
import type { IntegrationTestSpec } from "../api/integration-test.ts";
import { injectPrefix } from "../api/names.ts";
import type { LoadTestSpec } from "../api/load-test.ts";
import type { ResourceRef } from "../api/resource-ref.ts";
import { validateCall } from "../functions/registry.ts";
import { annotationNameOf, expandManifest } from "./manifest.ts";

/** Errors of a test, each starting with the path of the field. */
type Errors = string[];

/** Validates an IntegrationTest in `namespace` beyond its schema. Returns one line per error. */
export function validateIntegrationTest(spec: DeepReadonly<IntegrationTestSpec>, namespace: string): readonly string[] {
  const errors: Errors = [];
  const names = new Set<string>();
  if (!Array.isArray(spec.steps) || spec.steps.length === 0) return ["spec.steps: must have at least one step"];
  for (const [index, step] of spec.steps.entries()) {
    const path = `spec.steps[${index}]`;
    if (names.has(step.name)) errors.push(`${path}.name: duplicate value ${JSON.stringify(step.name)}`);
    names.add(step.name);
    resource(step.resource, `${path}.resource`, namespace, errors);
    if (step.resource === undefined && step.readyCondition === undefined && step.expectations === undefined) {
      errors.push(`${path}: must have a resource, readyCondition or expectations`);
    }
    condition(step.readyCondition, `${path}.readyCondition`, step.resource, errors);
    condition(step.expectations, `${path}.expectations`, step.resource, errors);
  }
  for (const [index, final] of (spec.finalExpectations ?? []).entries()) {
    const path = `spec.finalExpectations[${index}]`;
    resource(final.resource, `${path}.resource`, namespace, errors);
    condition(final.expectations, `${path}.expectations`, final.resource, errors);
  }
  return errors;
}

/** Validates a LoadTest in `namespace` beyond its schema. Returns one line per error. */
export function validateLoadTest(spec: DeepReadonly<LoadTestSpec>, namespace: string): readonly string[] {
  const errors: Errors = [];
  const target = spec.target.resource;
  resource(target, "spec.target.resource", namespace, errors);
  if (target.action === "Delete") errors.push("spec.target.resource.action: must be Apply; a load test needs its target");
  condition(spec.target.readyCondition, "spec.target.readyCondition", target, errors);
  const names = new Map<string, string>();
  for (const [index, injection] of (spec.workload.envInjection ?? []).entries()) {
    const path = `spec.workload.envInjection[${index}]`;
    const error = validateCall("extractor", injection.extract.function, injection.extract.params);
    if (error !== undefined) errors.push(`${path}.extract.${error}`);
    const annotation = annotationNameOf(injection.name);
    const other = names.get(annotation);
    if (other !== undefined)
      errors.push(`${path}.name: ${injection.name} and ${other} both become ${injectPrefix}${annotation}`);
    names.set(annotation, injection.name);
  }
  for (const [index, ref] of spec.workload.resources.entries()) {
    const path = `spec.workload.resources[${index}].manifest`;
    try {
      for (const manifest of expandManifest(ref.manifest ?? {})) errors.push(...validateManifest(manifest, path, namespace));
    } catch (error) {
      errors.push(`${path}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (spec.healthCheck !== undefined && spec.expectations !== undefined) {
    errors.push("spec.expectations: alias of healthCheck; set only one of them");
  }
  condition(spec.healthCheck, "spec.healthCheck", target, errors);
  condition(spec.expectations, "spec.expectations", target, errors);
  return errors;
}

function resource(ref: DeepReadonly<ResourceRef> | undefined, path: string, namespace: string, errors: Errors): void {
  if (ref === undefined) return;
  const { manifest, selector } = ref;
  if (manifest !== undefined && selector !== undefined) errors.push(`${path}: must have either manifest or selector, not both`);
  else if (manifest !== undefined) {
    if (Object.hasOwn(manifest, "items")) errors.push(`${path}.manifest: must be a single object, not a list`);
    else errors.push(...validateManifest(manifest, `${path}.manifest`, namespace));
  } else if (selector !== undefined) {
    const ways = [selector.name, selector.labelSelector, selector.annotationSelector].filter((way) => way !== undefined);
    if (ways.length !== 1) errors.push(`${path}.selector: must have exactly one of name, labelSelector and annotationSelector`);
    if (ref.action === "Delete") errors.push(`${path}.action: Delete requires a manifest`);
  } else errors.push(`${path}: must have a manifest or a selector`);
}

function validateManifest(manifest: DeepReadonly<Record<string, unknown>>, path: string, namespace: string): Errors {
  const errors: Errors = [];
  for (const field of ["apiVersion", "kind"] as const) {
    if (typeof manifest[field] !== "string" || manifest[field] === "") errors.push(`${path}.${field}: required`);
  }
  const metadata = manifest["metadata"];
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata))
    return [...errors, `${path}.metadata: required`];
  const { name, namespace: own, labels, annotations } = metadata as Readonly<Record<string, unknown>>;
  if (typeof name !== "string" || name === "")
    errors.push(`${path}.metadata.name: required (generateName would create another object in each round)`);
  if (own !== undefined && own !== namespace) {
    errors.push(`${path}.metadata.namespace: must be ${namespace}; a test can only change objects in its own namespace`);
  }
  for (const [field, map] of Object.entries({ labels, annotations })) {
    if (map === undefined || map === null) continue;
    if (typeof map !== "object" || Object.values(map).some((value) => typeof value !== "string")) {
      errors.push(`${path}.metadata.${field}: values must be strings`);
    }
  }
  return errors;
}

function condition(
  condition: DeepReadonly<StepCondition> | undefined,
  path: string,
  ref: DeepReadonly<ResourceRef> | undefined,
  errors: Errors,
): void {
  for (const list of ["allOf", "anyOf"] as const) {
    for (const [index, expectation] of (condition?.[list] ?? []).entries()) {
      const error = validateExpectation(expectation, ref);
      if (error !== undefined) errors.push(`${path}.${list}[${index}].${error}`);
    }
  }
}

function validateExpectation(
  expectation: DeepReadonly<Expectation>,
  ref: DeepReadonly<ResourceRef> | undefined,
): string | undefined {
  const { webhook } = expectation;
  if (webhook === undefined || webhook === "") {
    if (ref === undefined) return `function: ${expectation.function} requires a resource`;
    return validateCall("check", expectation.function, expectation.params);
  }
  const url = URL.canParse(webhook) ? new URL(webhook) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:")
    return `webhook: ${JSON.stringify(webhook)} is not an http or https URL`;
  if (url.username !== "" || url.password !== "")
    return "webhook: must not contain credentials; everyone who can read the test would see them";
  return undefined;
}
