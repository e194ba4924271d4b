import { MutationCompiler } from "@keelson/api-machinery/server";
import { invalidCause, notSupportedCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, listAt, objectAt, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import type { Read } from "../workload/workload.ts";
import {
  bindingCells,
  bindingColumns,
  paramKindCell,
  defaultMatchResources,
  variableCauses,
  variablesOf,
} from "./admission-policies.ts";
import {
  constraintCauses,
  matchResourcesCauses,
  paramKindCauses,
  paramRefCauses,
  policyNameCauses,
} from "./policy-references.ts";
import { matchConditionCauses } from "./webhook-configurations.ts";
import { type Causes, eachItem } from "../../causes.ts";

/** admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicies (KEP-3962) and their bindings. */
export function mutatingPolicyKinds(): readonly ServedResource[] {
  return [policies, bindings];
}

const common = {
  group: "admissionregistration.k8s.io",
  version: "v1beta1",
  categories: ["api-extensions"],
  scope: "Cluster",
} as const;

const policies = builtinResource({
  ...common,
  kind: "MutatingAdmissionPolicy",
  plural: "mutatingadmissionpolicies",
  columns: [
    column("Mutations", "The number of mutations.", { type: "integer" }),
    column("ParamKind", "The kind of the policy's parameters."),
    ageColumn,
  ],
  cells: (object, now) => [
    listAt(object, "spec", "mutations").length,
    paramKindCell(object),
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    default: (object) => {
      const spec = objectAt(object, "spec");
      if (spec === undefined) return;
      spec["failurePolicy"] ??= "Fail";
      if (valueAt(spec, "matchConstraints") !== undefined) defaultMatchResources(ensureMap(spec, "matchConstraints"));
    },
    validate: policyCauses,
  },
});

const bindings = builtinResource({
  ...common,
  kind: "MutatingAdmissionPolicyBinding",
  plural: "mutatingadmissionpolicybindings",
  columns: bindingColumns,
  cells: bindingCells,
  strategy: {
    default: (object) => {
      const match = objectAt(object, "spec", "matchResources");
      if (match !== undefined) defaultMatchResources(match);
    },
    validate: bindingCauses,
  },
});

/** Creates the compiler of a policy's variables and mutations. */
export function mutationCompilerOf(spec: unknown): MutationCompiler {
  const expressions = [
    ...listAt(spec, "variables").map((variable) => textAt(variable, "expression")),
    ...listAt(spec, "mutations").flatMap((mutation) =>
      ["applyConfiguration", "jsonPatch"].map((field) => textAt(mutation, field, "expression")),
    ),
  ];
  return new MutationCompiler(variablesOf(spec), expressions);
}

function* policyCauses(object: Read): Causes {
  const spec = valueAt(object, "spec");
  const compiler = mutationCompilerOf(spec);
  const mutations = listAt(spec, "mutations");
  const policy = valueAt(spec, "reinvocationPolicy");
  yield* check.oneOf("spec.failurePolicy", valueAt(spec, "failurePolicy"), ["Fail", "Ignore"]);
  yield* paramKindCauses(valueAt(spec, "paramKind"));
  yield* constraintCauses(spec);
  yield* operationCauses(valueAt(spec, "matchConstraints"), "spec.matchConstraints");
  yield* matchConditionCauses(
    listAt(spec, "matchConditions"),
    "spec.matchConditions",
    // Conditions are evaluated before variables.
    variablesOf(spec).filter((name) => name !== "variables"),
  );
  yield* variableCauses(spec, (expression, path) =>
    compileCauses(expression, path, (text) => compiler.compileVariable(text), "expression is not specified"),
  );
  yield* mutations.length === 0 ? [requiredCause("spec.mutations", "mutations must contain at least one item")] : [];
  yield* eachItem(mutations, (mutation, index) => mutationCauses(compiler, mutation, `spec.mutations[${index}]`));
  yield* policy === undefined || policy === ""
    ? [requiredCause("spec.reinvocationPolicy")]
    : check.oneOf("spec.reinvocationPolicy", policy, ["IfNeeded", "Never"]);
}

const operations = ["*", "CONNECT", "CREATE", "UPDATE"];

/** A policy cannot change what is deleted. */
function* operationCauses(match: unknown, at: string): Causes {
  yield* listAt(match, "resourceRules")
    .flatMap((rule) => listAt(rule, "operations"))
    .filter((operation) => !operations.includes(String(operation)))
    .map((operation) => notSupportedCause(`${at}.resourceRules.operations`, operation, operations));
}

const patchFields = { ApplyConfiguration: "applyConfiguration", JSONPatch: "jsonPatch" } as const;

function mutationCauses(compiler: MutationCompiler, mutation: unknown, at: string): StatusCause[] {
  const type = valueAt(mutation, "patchType");
  if (type === undefined || type === "") return [requiredCause(`${at}.patchType`)];
  if (type !== "ApplyConfiguration" && type !== "JSONPatch") {
    return [notSupportedCause(`${at}.patchType`, type, Object.keys(patchFields))];
  }
  const field = patchFields[type];
  const other = type === "JSONPatch" ? "applyConfiguration" : "jsonPatch";
  const compile = (text: string): unknown =>
    type === "JSONPatch" ? compiler.compilePatch(text) : compiler.compileConfiguration(text);
  const isOtherAbsent = valueAt(mutation, other) === undefined;
  return [
    ...(valueAt(mutation, field) === undefined
      ? [requiredCause(`${at}.${field}`, `must be specified when patchType is ${type}`)]
      : compileCauses(textAt(mutation, field, "expression"), `${at}.${field}.expression`, compile)),
    ...(isOtherAbsent ? [] : [invalidCause(`${at}.${other}`, `{${other}}`, `must not be specified when patchType is ${type}`)]),
  ];
}

/** `compile` returns a text if the expression does not compile. */
function compileCauses(
  expression: string,
  path: string,
  compile: (expression: string) => unknown,
  whyRequired = "",
): StatusCause[] {
  const trimmed = expression.trim();
  if (trimmed === "") return [requiredCause(path, whyRequired)];
  const compiled = compile(trimmed);
  return typeof compiled === "string" ? [invalidCause(path, trimmed, compiled)] : [];
}

function* bindingCauses(object: Read): Causes {
  const spec = valueAt(object, "spec");
  const match = valueAt(spec, "matchResources");
  yield* policyNameCauses(textAt(spec, "policyName"));
  yield* paramRefCauses(valueAt(spec, "paramRef"));
  yield* matchResourcesCauses(match, "spec.matchResources");
  yield* operationCauses(match, "spec.matchResources");
}
