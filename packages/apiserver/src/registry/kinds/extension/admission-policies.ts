import type { KubernetesObject } from "@keelson/api-machinery";
import { compileExpression, PolicyTypes, type WantedType } from "@keelson/api-machinery/server";
import {
  duplicateCause,
  invalidCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, listAt, objectAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { type Read, selectorCell } from "../workload/workload.ts";
import {
  constraintCauses,
  matchResourcesCauses,
  paramKindCauses,
  paramRefCauses,
  policyNameCauses,
} from "./policy-references.ts";
import { matchConditionCauses } from "./webhook-configurations.ts";
import { type Causes, createRepeatCheck, eachItem } from "../../causes.ts";

const group = "admissionregistration.k8s.io";

/** admissionregistration.k8s.io/v1 ValidatingAdmissionPolicies and their bindings. */
export function admissionPolicyKinds(): readonly ServedResource[] {
  return [policies, bindings];
}

/** The variables of a policy's expressions, except `params`. */
const policyVariables: readonly string[] = ["object", "oldObject", "request", "namespaceObject", "authorizer", "variables"];

/** The cell that names a policy's kind of parameters. */
export function paramKindCell(policy: Read): string {
  const kind = valueAt(policy, "spec", "paramKind");
  return kind === undefined ? "<unset>" : `${textAt(kind, "apiVersion")}/${textAt(kind, "kind")}`;
}

/** The columns of bindings. */
export const bindingColumns = [
  column("PolicyName", "The bound policy."),
  column("ParamRef", "The parameters, by name or selector."),
  ageColumn,
];

/** Cells of {@link bindingColumns}. */
export function bindingCells(binding: Read, now: number): readonly string[] {
  return [
    textAt(binding, "spec", "policyName"),
    paramRefCell(valueAt(binding, "spec", "paramRef")),
    age(binding.metadata.creationTimestamp, now),
  ];
}

function paramRefCell(ref: unknown): string {
  const name = textAt(ref, "name");
  // Whether the parameters have namespaces is not known here.
  if (name !== "") return `${textAt(ref, "namespace") || "*"}/${name}`;
  return valueAt(ref, "selector") === undefined ? "<unset>" : selectorCell(valueAt(ref, "selector"));
}

const policies = builtinResource({
  group,
  version: "v1",
  kind: "ValidatingAdmissionPolicy",
  plural: "validatingadmissionpolicies",
  categories: ["api-extensions"],
  scope: "Cluster",
  hasStatus: true,
  columns: [
    column("Validations", "The number of validations.", { type: "integer" }),
    column("ParamKind", "The kind of the policy's parameters."),
    ageColumn,
  ],
  cells: (object, now) => [
    listAt(object, "spec", "validations").length,
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
    prepareForCreate: (object) => setField(object, "status", {}),
    validate: policyCauses,
  },
});

const bindings = builtinResource({
  group,
  version: "v1",
  kind: "ValidatingAdmissionPolicyBinding",
  plural: "validatingadmissionpolicybindings",
  categories: ["api-extensions"],
  scope: "Cluster",
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

/** Sets the defaults of MatchResources. */
export function defaultMatchResources(match: object): void {
  ensureMap(match, "namespaceSelector");
  ensureMap(match, "objectSelector");
  if (valueAt(match, "matchPolicy") === undefined) setField(match, "matchPolicy", "Equivalent");
  for (const field of ["resourceRules", "excludeResourceRules"]) {
    for (const rule of objectsAt(match, field)) rule["scope"] ??= "*";
  }
}

function* policyCauses(object: Read): Causes {
  const spec = valueAt(object, "spec");
  yield* check.oneOf("spec.failurePolicy", valueAt(spec, "failurePolicy"), ["Fail", "Ignore"]);
  yield* paramKindCauses(valueAt(spec, "paramKind"));
  yield* constraintCauses(spec);
  yield* matchConditionCauses(
    listAt(spec, "matchConditions"),
    "spec.matchConditions",
    // Conditions are evaluated before variables.
    variablesOf(spec).filter((name) => name !== "variables"),
  );
  /** Expressions with variables that do not compile, which have no type. */
  const untyped = new Set<string>();
  const types = new PolicyTypes(variablesOf(spec));
  const expressions: Expressions = { spec, types };
  yield* variableCauses(spec, (expression, path, name) => {
    const causes = expressionCauses(expressions, expression, path, "any");
    if (causes.length > 0) untyped.add(`variables.${name}`);
    types.declare(name, expression);
    return causes;
  });
  const validations = listAt(spec, "validations");
  if (validations.length === 0 && listAt(spec, "auditAnnotations").length === 0) {
    const detail = "validations or auditAnnotations must contain at least one item";
    yield requiredCause("spec.validations", detail);
    yield requiredCause("spec.auditAnnotations", detail);
  }
  for (const [index, validation] of validations.entries()) {
    yield;
    yield* validationCauses(expressions, validation, `spec.validations[${index}]`, untyped);
  }
  yield* annotationCauses(object.metadata.name ?? "", expressions);
}

/** Validates the audit annotations of the policy `name`. */
function* annotationCauses(name: string, expressions: Expressions): Causes {
  const keys = new Set<string>();
  yield* eachItem(listAt(expressions.spec, "auditAnnotations"), (annotation, index) => {
    const at = `spec.auditAnnotations[${index}]`;
    const key = textAt(annotation, "key").trim();
    const isDuplicate = keys.has(key);
    keys.add(key);
    const full = `${name}/${key}`;
    const faults = qualifiedNameFaults(full).map((fault) => invalidCause(`${at}.key`, full, fault));
    return [
      ...faults,
      ...(isDuplicate ? [duplicateCause(`${at}.key`, key)] : []),
      ...valueExpressionCauses(expressions, textAt(annotation, "valueExpression").trim(), `${at}.valueExpression`),
    ];
  });
}

/** The maximum size of an audit annotation's expression. */
const maxValueExpressionBytes = 5 * 1024;

function valueExpressionCauses(expressions: Expressions, expression: string, path: string): StatusCause[] {
  if (expression === "") return [requiredCause(path, "valueExpression is not specified")];
  if (Buffer.byteLength(expression) > maxValueExpressionBytes) {
    return [invalidCause(path, expression, `must not exceed ${maxValueExpressionBytes} bytes in length`)];
  }
  return expressionCauses(expressions, expression, path, "text-or-null");
}

/** Validates a policy's variables with `expressionCausesOf`. */
export function* variableCauses(
  spec: unknown,
  expressionCausesOf: (expression: string, path: string, name: string) => StatusCause[],
): Causes {
  yield* eachItem(listAt(spec, "variables"), (variable, index) => {
    const name = textAt(variable, "name");
    const at = `spec.variables[${index}]`;
    return [
      ...variableNameCauses(name, `${at}.name`),
      ...expressionCausesOf(textAt(variable, "expression"), `${at}.expression`, name),
    ];
  });
}

function variableNameCauses(name: string, path: string): StatusCause[] {
  if (name.trim() === "") return [requiredCause(path, "name is not specified")];
  return /^[A-Za-z_]\w*$/.test(name) ? [] : [invalidCause(path, name, "must be a valid CEL identifier")];
}

function validationCauses(
  expressions: Expressions,
  validation: unknown,
  at: string,
  untyped: ReadonlySet<string>,
): StatusCause[] {
  const expression = textAt(validation, "expression");
  const message = textAt(validation, "message");
  const messageExpression = textAt(validation, "messageExpression");
  const reason = valueAt(validation, "reason");
  return [
    ...(untyped.has(expression.trim())
      ? [invalidCause(`${at}.expression`, expression, "must evaluate to bool but got dyn")]
      : expressionCauses(expressions, expression, `${at}.expression`, "bool")),
    ...(message !== "" && message.trim() === ""
      ? [invalidCause(`${at}.message`, message, "must be non-empty if specified")]
      : []),
    ...(/[\r\n]/.test(message) ? [invalidCause(`${at}.message`, message, "must not contain line breaks")] : []),
    ...(messageExpression === "" ? [] : expressionCauses(expressions, messageExpression, `${at}.messageExpression`, "string")),
    ...(reason === undefined ? [] : check.oneOf(`${at}.reason`, reason, ["Forbidden", "Invalid", "RequestEntityTooLarge"])),
  ];
}

/** What the expressions of a policy may use. */
interface Expressions {
  readonly spec: unknown;
  readonly types: PolicyTypes;
}

function expressionCauses({ spec, types }: Expressions, expression: string, path: string, wanted: WantedType): StatusCause[] {
  if (expression.trim() === "") return [requiredCause(path, "expression is not specified")];
  const compiled = compileExpression(expression, variablesOf(spec), wanted);
  if (typeof compiled === "string") return [invalidCause(path, expression, compiled)];
  const fault = types.fault(expression) ?? resultFault(types.typeOf(expression), wanted);
  return fault === undefined ? [] : [invalidCause(path, expression, fault)];
}

/** An expression without a type may have any result. */
function resultFault(type: string | undefined, wanted: WantedType): string | undefined {
  if (type === undefined || type === "dyn" || type === wanted || (wanted !== "bool" && wanted !== "string")) return undefined;
  return `must evaluate to ${wanted} but got ${type}`;
}

/** The variables that a policy's expressions can use. */
export function variablesOf(spec: unknown): readonly string[] {
  return valueAt(spec, "paramKind") === undefined ? policyVariables : [...policyVariables, "params"];
}

function* bindingCauses(object: KubernetesObject | Read): Causes {
  const spec = valueAt(object, "spec");
  yield* policyNameCauses(textAt(spec, "policyName"));
  yield* paramRefCauses(valueAt(spec, "paramRef"));
  yield* matchResourcesCauses(valueAt(spec, "matchResources"), "spec.matchResources");
  const actions = listAt(spec, "validationActions");
  if (actions.length === 0) {
    yield requiredCause("spec.validationActions", "at least one validation action is required");
  }
  const isRepeated = createRepeatCheck();
  for (const [index, action] of actions.entries()) {
    yield;
    const path = `spec.validationActions[${index}]`;
    yield* check.oneOf(path, action, ["Audit", "Deny", "Warn"]);
    if (isRepeated(action)) yield duplicateCause(path, action);
  }
  if (actions.includes("Deny") && actions.includes("Warn")) {
    const detail =
      "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers " +
      "serves no purpose)";
    yield invalidCause("spec.validationActions", actions, detail);
  }
}
