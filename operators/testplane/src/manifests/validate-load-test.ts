import type { DeepReadonly } from "@keelson/api-machinery";
import { injectPrefix } from "../api/names.ts";
import type { LoadTestSpec } from "../api/load-test.ts";
import { validateCondition as condition } from "./validate-condition.ts";
import { validateCall } from "../functions/registry.ts";
import { targetOf } from "../evaluation/target.ts";
import { hasPods } from "../evaluation/workload-pods.ts";
import { loadMs } from "../generator/plan-load.ts";
import { validateLoadGenerator } from "./validate-load-generator.ts";
import { annotationNameOf, expandManifest } from "./manifest.ts";
import { validateManifest, validateResource as resource } from "./validate-manifest.ts";

/** Errors of a test, each starting with the path of the field. */
type Errors = string[];

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
  const { generator, resources = [] } = spec.workload;
  if (generator !== undefined) {
    const found = validateLoadGenerator(generator, "spec.workload.generator");
    errors.push(...found);
    if (found.length === 0 && spec.durationSeconds && spec.durationSeconds * 1_000 < loadMs(generator)) {
      errors.push(`spec.durationSeconds: must be at least ${loadMs(generator) / 1_000}, the duration of the generator's load`);
    }
    if (spec.successCriteria?.minCheckPercent !== undefined) {
      errors.push("spec.successCriteria.minCheckPercent: requires k6; the built-in generator has no checks");
    }
  } else if (spec.workload.resources === undefined) errors.push("spec.workload: must have generator or resources");
  for (const [index, ref] of resources.entries()) {
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
  if (errors.length === 0 && spec.successCriteria?.maxTargetRestarts !== undefined && !hasPods(targetOf(target, namespace))) {
    errors.push("spec.successCriteria.maxTargetRestarts: requires a target with Pods, such as a Pod or a Deployment");
  }
  condition(spec.healthCheck, "spec.healthCheck", target, errors);
  condition(spec.expectations, "spec.expectations", target, errors);
  return errors;
}
