import { compileExpression } from "@keelson/api-machinery/server";
import {
  dns1123SubdomainFaults,
  duplicateCause,
  invalidCause,
  notSupportedCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
  tooManyCause,
} from "@keelson/api-machinery/validation";
import { matchConditionVariables } from "../../../admission/webhooks/match-conditions.ts";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, listAt, objectsAt, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { clientConfigCauses, defaultClientConfig, reviewVersionCauses } from "../../webhook-client-validation.ts";
import type { Read } from "../workload/workload.ts";
import { type Causes, eachItem } from "../../causes.ts";

/** admissionregistration.k8s.io/v1 MutatingWebhookConfiguration and ValidatingWebhookConfiguration. */
export function webhookConfigurationKinds(): readonly ServedResource[] {
  return (["Mutating", "Validating"] as const).map((type) =>
    builtinResource({
      group: "admissionregistration.k8s.io",
      version: "v1",
      kind: `${type}WebhookConfiguration`,
      plural: `${type.toLowerCase()}webhookconfigurations`,
      categories: ["api-extensions"],
      scope: "Cluster",
      columns: [column("Webhooks", "The number of webhooks.", { type: "integer" }), ageColumn],
      cells: (object, now) => [listAt(object, "webhooks").length, age(object.metadata.creationTimestamp, now)],
      strategy: {
        default: (object) => {
          for (const hook of objectsAt(object, "webhooks")) setDefaults(hook, type);
        },
        validate: (object) => configurationCauses(object, type),
      },
    }),
  );
}

type WebhookType = "Mutating" | "Validating";

function setDefaults(hook: Record<string, unknown>, type: WebhookType): void {
  hook["failurePolicy"] ??= "Fail";
  hook["matchPolicy"] ??= "Equivalent";
  hook["timeoutSeconds"] ??= 10;
  if (type === "Mutating") hook["reinvocationPolicy"] ??= "Never";
  ensureMap(hook, "namespaceSelector");
  ensureMap(hook, "objectSelector");
  defaultClientConfig(valueAt(hook, "clientConfig"));
  for (const rule of objectsAt(hook, "rules")) rule["scope"] ??= "*";
}

function* configurationCauses(object: Read, type: WebhookType): Causes {
  const names = new Set<string>();
  yield* eachItem(listAt(object, "webhooks"), function* (hook, index) {
    const at = `webhooks[${index}]`;
    const name = textAt(hook, "name");
    const isRepeated = name !== "" && names.has(name);
    names.add(name);
    const missing = "must specify one of v1, v1beta1";
    yield* webhookCauses(hook, type, at);
    yield* reviewVersionCauses(listAt(hook, "admissionReviewVersions"), `${at}.admissionReviewVersions`, missing);
    yield* isRepeated ? [duplicateCause(`${at}.name`, name)] : [];
  });
}

const sideEffects = ["None", "NoneOnDryRun"];

function* webhookCauses(hook: unknown, type: WebhookType, at: string): Causes {
  const effects = valueAt(hook, "sideEffects");
  const timeout = valueAt(hook, "timeoutSeconds");
  const isTimely = typeof timeout !== "number" || (timeout >= 1 && timeout <= 30);
  yield* nameCauses(textAt(hook, "name"), `${at}.name`);
  yield* eachItem(listAt(hook, "rules"), (rule, index) => ruleCauses(rule, `${at}.rules[${index}]`));
  yield* check.oneOf(`${at}.failurePolicy`, valueAt(hook, "failurePolicy"), ["Fail", "Ignore"]);
  yield* check.oneOf(`${at}.matchPolicy`, valueAt(hook, "matchPolicy"), ["Equivalent", "Exact"]);
  yield* effects === undefined
    ? [requiredCause(`${at}.sideEffects`, `must specify one of ${sideEffects.join(", ")}`)]
    : check.oneOf(`${at}.sideEffects`, effects, sideEffects);
  yield* isTimely ? [] : [invalidCause(`${at}.timeoutSeconds`, timeout, "the timeout value must be between 1 and 30 seconds")];
  yield* check.labelSelector(`${at}.namespaceSelector`, valueAt(hook, "namespaceSelector"));
  yield* check.labelSelector(`${at}.objectSelector`, valueAt(hook, "objectSelector"));
  yield* type === "Mutating"
    ? check.oneOf(`${at}.reinvocationPolicy`, valueAt(hook, "reinvocationPolicy"), ["IfNeeded", "Never"])
    : [];
  yield* clientConfigCauses(valueAt(hook, "clientConfig"), `${at}.clientConfig`);
  yield* matchConditionCauses(listAt(hook, "matchConditions"), `${at}.matchConditions`, matchConditionVariables);
}

/** A fully qualified domain name of at least three segments. */
function nameCauses(name: string, at: string): StatusCause[] {
  if (name === "") return [requiredCause(at)];
  const faults = dns1123SubdomainFaults(name);
  if (faults.length > 0) return [invalidCause(at, name, faults.join(","))];
  const detail = "should be a domain with at least three segments separated by dots";
  return name.split(".").length < 3 ? [invalidCause(at, name, detail)] : [];
}

const operations = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/** Validates a rule of a webhook or policy (admissionregistration/v1 RuleWithOperations). */
export function* ruleCauses(rule: unknown, at: string): Causes {
  yield* listCauses(rule, "operations", at, "operations", (operation, path) =>
    operations.includes(operation) ? [] : [notSupportedCause(path, operation, operations)],
  );
  yield* listCauses(rule, "apiGroups", at, "API groups", () => []);
  yield* listCauses(rule, "apiVersions", at, "API versions", (version, path) => (version === "" ? [requiredCause(path)] : []));
  yield* resourceCauses(listAt(rule, "resources").map(String), `${at}.resources`);
  yield* check.oneOf(`${at}.scope`, valueAt(rule, "scope"), ["*", "Cluster", "Namespaced"]);
}

function* listCauses(
  rule: unknown,
  field: string,
  at: string,
  what: string,
  validate: (value: string, path: string) => StatusCause[],
): Causes {
  const values = listAt(rule, field).map(String);
  const path = `${at}.${field}`;
  if (values.length === 0) {
    yield requiredCause(path);
    return;
  }
  const isMixed = values.length > 1 && values.includes("*");
  yield* isMixed ? [invalidCause(path, values, `if '*' is present, must not specify other ${what}`)] : [];
  yield* eachItem(values, (value, index) => validate(value, `${path}[${index}]`));
}

function* resourceCauses(resources: readonly string[], path: string): Causes {
  if (resources.length === 0) {
    yield requiredCause(path);
    return;
  }

  const [allOf, ofAll] = [new Set<string>(), new Set<string>()];
  for (const [index, pattern] of resources.entries()) {
    yield;
    const at = `${path}[${index}]`;
    if (pattern === "") yield requiredCause(at);
    const slash = pattern.indexOf("/");
    if (slash < 0) continue;
    const [resource, part] = [pattern.slice(0, slash), pattern.slice(slash + 1)];
    if (allOf.has(resource)) {
      yield invalidCause(at, pattern, `if '${resource}/*' is present, must not specify ${pattern}`);
    }
    if (ofAll.has(part)) yield invalidCause(at, pattern, `if '*/${part}' is present, must not specify ${pattern}`);
    if (part === "*") allOf.add(resource);
    if (resource === "*") ofAll.add(part);
  }
  if (resources.length > 1 && resources.includes("*/*")) {
    yield invalidCause(path, resources, "if '*/*' is present, must not specify other resources");
  }
  const hasPlain = resources.some((pattern) => !pattern.includes("/") && pattern !== "*");
  if (resources.includes("*") && hasPlain) {
    const detail = "if '*' is present, must not specify other resources without subresources";
    yield invalidCause(path, resources, detail);
  }
}

const maxMatchConditions = 64;

/** Validates the match conditions of a webhook or policy, whose expressions may use these variables. */
export function* matchConditionCauses(conditions: readonly unknown[], path: string, variables: readonly string[]): Causes {
  const names = new Set<string>();
  yield* conditions.length > maxMatchConditions ? [tooManyCause(path, conditions.length, maxMatchConditions)] : [];
  for (const [index, condition] of conditions.entries()) {
    yield;
    const at = `${path}[${index}]`;
    const expression = textAt(condition, "expression").trim();
    const name = textAt(condition, "name");
    if (expression === "") yield requiredCause(`${at}.expression`);
    else {
      const compiled = compileExpression(expression, variables, "bool");
      if (typeof compiled === "string") yield invalidCause(`${at}.expression`, expression, compiled);
    }
    if (name === "") yield requiredCause(`${at}.name`);
    else {
      yield* qualifiedNameFaults(name).map((fault) => invalidCause(`${at}.name`, name, fault));
      if (names.has(name)) yield duplicateCause(`${at}.name`, name);
    }
    names.add(name);
  }
}
