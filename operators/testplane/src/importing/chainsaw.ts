import { isJsonObject } from "@keelson/api-machinery";
import { group, version } from "../api/names.ts";
import { expressionOf } from "./assertion-tree.ts";
import { bind, convertOperation } from "./chainsaw-operations.ts";
import type { OperationScope } from "./operation-scope.ts";
import { ConversionError, ProblemList } from "./problem-list.ts";
import type { ConversionOptions, ConvertedTest, TestSource } from "./source-files.ts";
import { LateStepList, withHandlers } from "./step-handlers.ts";
import { objectName, StepList } from "./step-list.ts";

type Json = Readonly<Record<string, unknown>>;

/** Whether a document is a test of chainsaw. */
export const isChainsawTest = (document: unknown): document is Json =>
  isJsonObject(document) && String(document["apiVersion"]).startsWith("chainsaw.kyverno.io/") && document["kind"] === "Test";

/** Fields of a spec that are converted, or that make no difference. */
const known = new Set([
  ...["description", "timeouts", "concurrent", "template", "namespace", "scenarios", "bindings", "steps", "catch", "finally"],
  ...["cluster", "clusters", "deletionPropagationPolicy", "force", "forceTerminationGracePeriod", "delayBeforeCleanup"],
]);

/** Fields of a step that are converted, or that make no difference. */
const knownOfStep = new Set([
  ...["name", "description", "bindings", "use", "cluster", "timeouts", "try", "catch", "finally", "cleanup"],
  ...["deletionPropagationPolicy", "skipDelete", "template"],
]);

/** Converts a test of chainsaw. What has no counterpart is left out and named in `problems`. */
export function convertChainsaw(document: Json, source: TestSource, options: ConversionOptions): ConvertedTest {
  const list = new ProblemList();
  const spec = isJsonObject(document["spec"]) ? document["spec"] : {};
  const metadata = isJsonObject(document["metadata"]) ? document["metadata"] : {};
  const variables = new Map([
    ["namespace", "test.namespace"],
    ["test", "{'metadata': {'name': test.name, 'namespace': test.namespace} }"],
  ]);
  const { timeouts, bindings, scenarios, steps } = spec;
  for (const field of Object.keys(spec)) if (!known.has(field)) list.problem(`spec.${field}`, "has no counterpart");
  list.attempt("spec.bindings", () => bind(bindings, variables));
  const parameters = list.attempt("spec.scenarios", () => scenariosOf(scenarios, variables)) ?? {};
  const shared = { source, list, timeouts: isJsonObject(timeouts) ? timeouts : {}, clusters: new Set<string>() };
  const names = new StepList();
  const lists: Lists = { names, main: [], catch: new LateStepList(), finally: new LateStepList() };
  const main = (Array.isArray(steps) ? steps : []).filter(isJsonObject);
  const scopeOf = ({ cluster = spec["cluster"] }: Json) => ({
    ...{ ...shared, cluster, outputs: new Set<string>(), variables: new Map(variables) },
  });
  for (const [index, step] of main.entries()) {
    const name = typeof step["name"] === "string" ? step["name"] : `step ${index + 1}`;
    convertStep(step, `${name}: `, lists, scopeOf(step));
  }
  for (const block of ["catch", "finally"] as const)
    convertOperations(spec[block], "test: ", { ...scopeOf({}), steps: lists[block] });
  const converted = {
    ...placeOf(spec, options, list),
    ...clustersOf(shared.clusters, options, list),
    ...parameters,
    steps: lists.main,
    ...(lists.catch.steps.length === 0 ? {} : { catch: lists.catch.steps }),
    ...(lists.finally.steps.length === 0 ? {} : { finally: lists.finally.steps }),
  };
  if (lists.main.length === 0) list.problem("spec.steps", "nothing is left to run");
  const name = objectName(String(metadata["name"] ?? source.path));
  const test = { apiVersion: `${group}/${version}`, kind: "IntegrationTest", metadata: { name }, spec: converted };
  return { path: source.path, test, problems: list.problems, remarks: list.remarks };
}

/** Where the test runs. */
function placeOf({ namespace }: Json, { serviceAccount }: ConversionOptions, list: ProblemList): Json {
  if (namespace !== undefined) list.remark(`the test ran in the namespace ${String(namespace)}: pass it with -n`);
  if (serviceAccount === undefined) {
    if (namespace === undefined)
      list.remark("the test runs in the namespace of the command; --service-account gives it one of its own");
    return {};
  }
  return { serviceAccountName: serviceAccount, ...(namespace === undefined ? { isolatedNamespace: true } : {}) };
}

/** The clusters that the converted steps use. */
function clustersOf(clusters: ReadonlySet<string>, { serviceAccount }: ConversionOptions, list: ProblemList): Json {
  if (clusters.size === 0) return {};
  if (serviceAccount === undefined) list.problem("spec.clusters", "requires --service-account");
  const converted = [...clusters].map((name) => ({ name, kubeconfigSecret: { name: `${name}-kubeconfig` } }));
  for (const { name, kubeconfigSecret } of converted)
    list.remark(`the kubeconfig of the cluster ${name} is read from the Secret ${kubeconfigSecret.name}, key kubeconfig`);
  return { clusters: converted };
}

interface Lists {
  /** Keeps the names of the main steps unique. */
  readonly names: StepList;
  readonly main: Json[];
  readonly catch: StepList;
  readonly finally: StepList;
}

function convertStep(step: Json, prefix: string, lists: Lists, shared: Omit<OperationScope, "steps">): void {
  const { bindings, use, timeouts } = step;
  if (use !== undefined) return shared.list.problem(`${prefix}use`, "step templates are not converted; copy their steps");
  for (const field of Object.keys(step))
    if (!knownOfStep.has(field)) shared.list.problem(`${prefix}${field}`, "has no counterpart");
  if (shared.list.attempt(`${prefix}bindings`, () => (bind(bindings, shared.variables), true)) === undefined) return;
  const own = { ...shared, timeouts: isJsonObject(timeouts) ? { ...shared.timeouts, ...timeouts } : shared.timeouts };
  const convert = (block: string, steps: StepList): readonly Json[] => {
    const before = steps.steps.length;
    convertOperations(step[block], prefix, { ...own, steps });
    return steps.steps.slice(before);
  };
  const late = (block: string): readonly Json[] =>
    // Names of late steps follow the name of their step.
    convert(block, new LateStepList()).map(({ name, ...rest }) => ({ name: String(name).slice(prefix.length), ...rest }));
  const tried = convert("try", lists.names);
  // Without an operation that can fail, the finally steps run in their turn.
  const main = tried.length > 0 ? tried : convert("finally", lists.names);
  const handlers = tried.length > 0 ? { catch: late("catch"), finally: late("finally") } : { catch: [], finally: [] };
  const cleanup = late("cleanup");
  lists.main.push(...withHandlers({ main, ...handlers, cleanup }));
  // A step of which nothing else is left has nothing to attach its cleanup to.
  if (main.length === 0) for (const { name, ...rest } of cleanup) lists.finally.add(`${prefix}${String(name)}`, rest);
}

function convertOperations(operations: unknown, prefix: string, scope: OperationScope): void {
  if (!Array.isArray(operations)) return;
  for (const operation of operations as readonly unknown[]) convertOperation(operation, prefix, scope);
}

/** Parameters and scenarios of the scenarios of a test. Adds the variables. */
function scenariosOf(scenarios: unknown, variables: Map<string, string>): Json {
  if (!Array.isArray(scenarios) || scenarios.length === 0) return {};
  const types = new Map<string, string>();
  const converted = (scenarios as readonly Json[]).map(({ bindings }, index) => {
    const values: Record<string, unknown> = {};
    for (const { name, value } of (Array.isArray(bindings) ? bindings : []) as readonly Json[]) {
      if (typeof name !== "string" || expressionOf(value) !== undefined)
        throw new ConversionError("values of scenarios cannot be expressions");
      values[name] = value;
      types.set(name, typeOf(value));
      variables.set(name, `params.${name}`);
    }
    return { name: `scenario-${index + 1}`, values };
  });
  return { parameters: [...types].map(([name, type]) => ({ name, type })), scenarios: converted };
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return value === null ? "object" : typeof value;
}
