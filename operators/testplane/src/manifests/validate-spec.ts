import type { DeepReadonly } from "@keelson/api-machinery";
import type { Expectation, StepCondition } from "../api/expectation.ts";
import type { IntegrationTestSpec } from "../api/integration-test.ts";
import { injectPrefix } from "../api/names.ts";
import type { LoadTestSpec } from "../api/load-test.ts";
import type { ResourceRef } from "../api/resource-ref.ts";
import { callFault } from "../functions/registry.ts";
import { annotationNameOf, expandManifest } from "./manifest.ts";

/** What is wrong with a test, with the path of the field. */
type Faults = string[];

/** What is wrong with an IntegrationTest in `namespace`, one line a fault: what a schema cannot say, and all of it again. */
export function faultsOfIntegrationTest(spec: DeepReadonly<IntegrationTestSpec>, namespace: string): readonly string[] {
  const faults: Faults = [];
  const names = new Set<string>();
  if (!Array.isArray(spec.steps) || spec.steps.length === 0) return ["spec.steps: a test needs at least one step"];
  for (const [index, step] of spec.steps.entries()) {
    const path = `spec.steps[${index}]`;
    if (names.has(step.name)) faults.push(`${path}.name: ${JSON.stringify(step.name)} is the name of another step too`);
    names.add(step.name);
    resource(step.resource, `${path}.resource`, namespace, faults);
    if (step.resource === undefined && step.readyCondition === undefined && step.expectations === undefined) {
      faults.push(`${path}: has neither a resource nor anything to check`);
    }
    condition(step.readyCondition, `${path}.readyCondition`, step.resource, faults);
    condition(step.expectations, `${path}.expectations`, step.resource, faults);
  }
  for (const [index, final] of (spec.finalExpectations ?? []).entries()) {
    const path = `spec.finalExpectations[${index}]`;
    resource(final.resource, `${path}.resource`, namespace, faults);
    condition(final.expectations, `${path}.expectations`, final.resource, faults);
  }
  return faults;
}

/** What is wrong with a LoadTest. */
export function faultsOfLoadTest(spec: DeepReadonly<LoadTestSpec>, namespace: string): readonly string[] {
  const faults: Faults = [];
  const target = spec.target.resource;
  resource(target, "spec.target.resource", namespace, faults);
  if (target.action === "Delete") faults.push("spec.target.resource.action: the target of a load cannot be deleted");
  condition(spec.target.readyCondition, "spec.target.readyCondition", target, faults);
  const names = new Map<string, string>();
  for (const [index, injection] of (spec.workload.envInjection ?? []).entries()) {
    const path = `spec.workload.envInjection[${index}]`;
    const fault = callFault("extractor", injection.extract.function, injection.extract.params);
    if (fault !== undefined) faults.push(`${path}.extract.${fault}`);
    const annotation = annotationNameOf(injection.name);
    const other = names.get(annotation);
    if (other !== undefined)
      faults.push(`${path}.name: ${injection.name} and ${other} both become ${injectPrefix}${annotation}`);
    names.set(annotation, injection.name);
  }
  for (const [index, ref] of spec.workload.resources.entries()) {
    const path = `spec.workload.resources[${index}].manifest`;
    try {
      for (const manifest of expandManifest(ref.manifest ?? {})) faults.push(...manifestFaults(manifest, path, namespace));
    } catch (error) {
      faults.push(`${path}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (spec.healthCheck !== undefined && spec.expectations !== undefined) {
    faults.push("spec.expectations: is another name of healthCheck; give one of them");
  }
  condition(spec.healthCheck, "spec.healthCheck", target, faults);
  condition(spec.expectations, "spec.expectations", target, faults);
  return faults;
}

function resource(ref: DeepReadonly<ResourceRef> | undefined, path: string, namespace: string, faults: Faults): void {
  if (ref === undefined) return;
  const { manifest, selector } = ref;
  if (manifest !== undefined && selector !== undefined)
    faults.push(`${path}: has both manifest and selector; give one of them`);
  else if (manifest !== undefined) {
    if (Object.hasOwn(manifest, "items")) faults.push(`${path}.manifest: is a list; a step is about one object`);
    else faults.push(...manifestFaults(manifest, `${path}.manifest`, namespace));
  } else if (selector !== undefined) {
    const ways = [selector.name, selector.labelSelector, selector.annotationSelector].filter((way) => way !== undefined);
    if (ways.length !== 1) faults.push(`${path}.selector: wants exactly one of name, labelSelector and annotationSelector`);
    if (ref.action === "Delete") faults.push(`${path}.action: only a manifest's object can be deleted`);
  } else faults.push(`${path}: has neither manifest nor selector`);
}

function manifestFaults(manifest: DeepReadonly<Record<string, unknown>>, path: string, namespace: string): Faults {
  const faults: Faults = [];
  for (const field of ["apiVersion", "kind"] as const) {
    if (typeof manifest[field] !== "string" || manifest[field] === "") faults.push(`${path}.${field}: is missing`);
  }
  const metadata = manifest["metadata"];
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata))
    return [...faults, `${path}.metadata: is missing`];
  const { name, namespace: own, labels, annotations } = metadata as Readonly<Record<string, unknown>>;
  if (typeof name !== "string" || name === "")
    faults.push(`${path}.metadata.name: is missing (generateName makes another object each round)`);
  if (own !== undefined && own !== namespace) {
    faults.push(`${path}.metadata.namespace: a test changes objects in its own namespace, ${namespace}, only`);
  }
  for (const [field, map] of Object.entries({ labels, annotations })) {
    if (map === undefined || map === null) continue;
    if (typeof map !== "object" || Object.values(map).some((value) => typeof value !== "string")) {
      faults.push(`${path}.metadata.${field}: values must be strings`);
    }
  }
  return faults;
}

function condition(
  condition: DeepReadonly<StepCondition> | undefined,
  path: string,
  ref: DeepReadonly<ResourceRef> | undefined,
  faults: Faults,
): void {
  for (const list of ["allOf", "anyOf"] as const) {
    for (const [index, expectation] of (condition?.[list] ?? []).entries()) {
      const fault = expectationFault(expectation, ref);
      if (fault !== undefined) faults.push(`${path}.${list}[${index}].${fault}`);
    }
  }
}

function expectationFault(
  expectation: DeepReadonly<Expectation>,
  ref: DeepReadonly<ResourceRef> | undefined,
): string | undefined {
  const { webhook } = expectation;
  if (webhook === undefined || webhook === "") {
    if (ref === undefined) return `function: ${expectation.function} needs a resource to look at`;
    return callFault("check", expectation.function, expectation.params);
  }
  const url = URL.canParse(webhook) ? new URL(webhook) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:")
    return `webhook: ${JSON.stringify(webhook)} is no http or https URL`;
  if (url.username !== "" || url.password !== "")
    return "webhook: a URL with a password in it would be shown to everybody who may read the test";
  return undefined;
}
