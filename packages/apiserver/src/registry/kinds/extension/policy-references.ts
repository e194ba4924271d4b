import {
  dns1035LabelFaults,
  dns1123SubdomainFaults,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  pathSegmentFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { ruleCauses } from "./webhook-configurations.ts";
import { type Causes, createRepeatCheck, eachItem } from "../../causes.ts";

/*
 * What admission policies and their bindings refer to: kinds of parameters, parameters, and the resources they match.
 */

/** Validates a policy's kind of parameters. */
export function paramKindCauses(kind: unknown, path = "spec.paramKind"): StatusCause[] {
  if (kind === undefined) return [];
  return [
    ...apiVersionCauses(textAt(kind, "apiVersion"), `${path}.apiVersion`),
    ...kindCauses(textAt(kind, "kind"), `${path}.kind`),
  ];
}

function apiVersionCauses(apiVersion: string, path: string): StatusCause[] {
  if (apiVersion === "") return [requiredCause(path)];
  const parts = apiVersion.split("/");
  if (parts.length > 2) return [invalidCause(path, apiVersion, `unexpected GroupVersion string: ${apiVersion}`)];
  const [group, version] = parts.length === 2 ? parts : ["", apiVersion];
  const groupFaults = group === undefined || group === "" ? [] : dns1123SubdomainFaults(group);
  const causes = groupFaults.length === 0 ? [] : [invalidCause(path, group, groupFaults.join(","))];
  if (version === undefined || version === "") return [...causes, invalidCause(path, apiVersion, "version must be specified")];
  const faults = dns1035LabelFaults(version);
  return faults.length === 0 ? causes : [...causes, invalidCause(path, version, faults.join(","))];
}

function kindCauses(kind: string, path: string): StatusCause[] {
  if (kind === "") return [requiredCause(path)];
  const faults = dns1035LabelFaults(kind.toLowerCase());
  if (faults.length === 0) return [];
  return [invalidCause(path, kind, `may have mixed case, but should otherwise match: ${faults.join(",")}`)];
}

/** Validates the resources that a policy or binding matches (MatchResources). */
export function* matchResourcesCauses(match: unknown, path: string): Causes {
  if (match === undefined) return;
  const rulesOf = (field: string): Causes =>
    eachItem(listAt(match, field), function* (rule, index) {
      const at = `${path}.${field}[${index}]`;
      yield* resourceNameCauses(rule, `${at}.resourceNames`);
      yield* ruleCauses(rule, at);
    });
  yield* check.oneOf(`${path}.matchPolicy`, valueAt(match, "matchPolicy"), ["Equivalent", "Exact"]);
  yield* check.labelSelector(`${path}.namespaceSelector`, valueAt(match, "namespaceSelector"));
  yield* check.labelSelector(`${path}.objectSelector`, valueAt(match, "objectSelector"));
  yield* rulesOf("resourceRules");
  yield* rulesOf("excludeResourceRules");
}

function* resourceNameCauses(rule: unknown, path: string): Causes {
  const isRepeated = createRepeatCheck();
  yield* eachItem(listAt(rule, "resourceNames").map(String), (name, index) => {
    const at = `${path}[${index}]`;
    const faults = pathSegmentFaults(name).map((fault) => invalidCause(at, name, fault));
    return isRepeated(name) ? [...faults, duplicateCause(at, name)] : faults;
  });
}

/** Validates a policy's constraints, which must have a rule. */
export function* constraintCauses(spec: unknown): Causes {
  const path = "spec.matchConstraints";
  if (valueAt(spec, "matchConstraints") === undefined) {
    yield requiredCause(path);
    return;
  }
  const isEmpty = listAt(spec, "matchConstraints", "resourceRules").length === 0;
  yield* matchResourcesCauses(valueAt(spec, "matchConstraints"), path);
  yield* isEmpty ? [requiredCause(`${path}.resourceRules`)] : [];
}

/** Validates the name of a binding's policy. */
export function policyNameCauses(name: string): StatusCause[] {
  return name === "" ? [requiredCause("spec.policyName")] : check.dnsSubdomain("spec.policyName", name);
}

/** Validates a binding's reference to parameters. */
export function* paramRefCauses(ref: unknown): Causes {
  if (ref === undefined) return;
  const path = "spec.paramRef";
  const [name, selector] = [textAt(ref, "name"), valueAt(ref, "selector")];
  const isBoth = name !== "" && selector !== undefined;
  const detail = "name and selector are mutually exclusive";
  yield* name === "" ? [] : pathSegmentFaults(name).map((fault) => invalidCause(`${path}.name`, name, fault));
  yield* isBoth ? [forbiddenCause(`${path}.name`, detail)] : [];
  yield* check.labelSelector(`${path}.selector`, selector);
  yield* isBoth ? [forbiddenCause(`${path}.selector`, detail)] : [];
  if (name === "" && selector === undefined) yield requiredCause(path, "one of name or selector must be specified");
  const action = valueAt(ref, "parameterNotFoundAction");
  if (action === undefined || action === "") yield requiredCause(`${path}.parameterNotFoundAction`);
  else yield* check.oneOf(`${path}.parameterNotFoundAction`, action, ["Allow", "Deny"]);
}
