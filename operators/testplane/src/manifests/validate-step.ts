import type { DeepReadonly } from "@keelson/api-machinery";
import { compilePattern } from "@keelson/api-machinery/pattern";
import { isDuration } from "@keelson/api-machinery/time";
import { actionNames } from "../api/step-actions.ts";
import { toolNames } from "../api/tool-actions.ts";
import type { TestStep } from "../api/test-step.ts";
import { celVariables, validateCel } from "../assertions/cel-assertion.ts";
import { suggestion } from "../functions/closest-name.ts";
import { hasProgram } from "../programs/program-pod.ts";
import { hasTemplate, validateTemplates } from "../templating/template.ts";
import { testVariableNames } from "../templating/test-variables.ts";
import { expandManifest } from "./manifest.ts";
import { validateCondition } from "./validate-condition.ts";
import { validateManifest, validateResource } from "./validate-manifest.ts";
import { validateTools } from "./validate-tools.ts";

type Step = DeepReadonly<TestStep>;

/** Variables of the expressions in checks and outputs. */
export const checkVariables: readonly string[] = [...celVariables, ...testVariableNames];

/** Inputs of the validation of a step. */
export interface StepScope {
  /** The only namespace that manifests may name; undefined means any. */
  readonly namespace: string | undefined;
  /** Names of the other clusters of the test. */
  readonly clusters: readonly string[];
  /** One line per error, each starting with the path of the field. */
  readonly errors: string[];
}

/** Validates a step. */
export function validateStep(step: Step, path: string, test: StepScope): void {
  // The credentials of another cluster decide what the step may change there.
  const scope = step.cluster === undefined ? test : { ...test, namespace: undefined };
  const { errors, namespace } = scope;
  validateCluster(step, path, test);
  const used = [...actionNames, "resource" as const].filter((name) => step[name] !== undefined);
  if (used.length > 1) errors.push(`${path}: must have only one of ${used.join(" and ")}`);
  if (used.length === 0 && step.readyCondition === undefined && step.expectations === undefined)
    errors.push(`${path}: must have a resource, readyCondition or expectations, or an action: ${actionNames.join(", ")}`);
  validateResource(step.resource, `${path}.resource`, namespace, errors);
  validateAction(step, path, scope);
  errors.push(...validateTools(step, path, namespace === undefined));
  const object = used[0] === undefined || used[0] === "sleep" || hasProgram(step) ? undefined : {};
  const variables = hasProgram(step) ? [...checkVariables, "result"] : checkVariables;
  validateCondition(step.readyCondition, `${path}.readyCondition`, object, errors, variables);
  validateCondition(step.expectations, `${path}.expectations`, object, errors, variables);
  for (const [index, { cel }] of (step.outputs ?? []).entries()) {
    const error = validateCel(cel, variables, "any");
    if (error !== undefined) errors.push(`${path}.outputs[${index}].cel: ${error}`);
  }
  const { catch: _, finally: __, cleanup: ___, ...own } = step;
  errors.push(...validateTemplates(own, path, testVariableNames));
}

/** Names of the fields that act in the cluster of the test only. */
const localActions = ["script", "command", ...toolNames] as const;

function validateCluster(step: Step, path: string, { clusters, errors }: StepScope): void {
  const { cluster } = step;
  if (cluster === undefined) return;
  errors.push(...unknownCluster(cluster, path, clusters));
  for (const name of localActions)
    if (step[name] !== undefined)
      errors.push(`${path}.cluster: must not be set with ${name}, which runs in the cluster of the test`);
  if (step.resource?.adopt === true) errors.push(`${path}.resource.adopt: must not be true in another cluster`);
}

/** The error of a cluster that a test does not have. */
export function unknownCluster(cluster: string | undefined, path: string, clusters: readonly string[]): readonly string[] {
  if (cluster === undefined || clusters.includes(cluster)) return [];
  return [`${path}.cluster: ${JSON.stringify(cluster)} not found in spec.clusters${suggestion(cluster, clusters)}`];
}

function validateAction(step: Step, path: string, { namespace, errors }: StepScope): void {
  for (const action of ["apply", "create"] as const) {
    for (const [index, manifest] of (step[action]?.manifests ?? []).entries()) {
      const at = `${path}.${action}.manifests[${index}]`;
      try {
        for (const each of expandManifest(manifest)) errors.push(...validateManifest(each, at, namespace));
      } catch (error) {
        errors.push(`${at}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }
  for (const action of ["patch", "delete", "scale"] as const) {
    const own = step[action]?.object.namespace;
    if (own !== undefined && namespace !== undefined && own !== namespace && !hasTemplate(own))
      errors.push(
        `${path}.${action}.object.namespace: must be ${namespace}; set spec.serviceAccountName to change other namespaces`,
      );
  }
  if (step.patch?.type === "json" && !Array.isArray(step.patch.body))
    errors.push(`${path}.patch.body: must be a list of operations`);
  if (step.sleep !== undefined && !isDuration(step.sleep))
    errors.push(`${path}.sleep: ${JSON.stringify(step.sleep)} is not a duration such as 5s`);
  validateExpectError(step, path, errors);
}

const isTool = (name: string): boolean => (toolNames as readonly string[]).includes(name);

function validateExpectError(step: Step, path: string, errors: string[]): void {
  if (step.expectError === undefined) return;
  const acts =
    step.resource?.manifest !== undefined ||
    actionNames.some((name) => name !== "sleep" && !isTool(name) && step[name] !== undefined);
  if (!acts) errors.push(`${path}.expectError: requires an action that the API server can reject`);
  const { message } = step.expectError;
  if (message === undefined) return;
  try {
    compilePattern(message);
  } catch (error) {
    errors.push(`${path}.expectError.message: ${error instanceof Error ? error.message : String(error)}`);
  }
}
