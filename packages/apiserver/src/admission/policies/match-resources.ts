import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { selectorFromObject } from "@keelson/api-machinery/selectors";
import { isJsonObject } from "@keelson/api-machinery";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import type { AdmissionRequest } from "../admission.ts";

/** Whether a request matches MatchResources (admissionregistration/v1): rules, exclusions and selectors. */
export function matchesResources(
  match: unknown,
  request: AdmissionRequest,
  namespace: DeepReadonly<KubernetesObject> | undefined,
): boolean {
  const rules = listAt(match, "resourceRules");
  if (rules.length > 0 && !rules.some((rule) => matchesRule(rule, match, request))) return false;
  if (listAt(match, "excludeResourceRules").some((rule) => matchesRule(rule, match, request))) return false;
  const { resource, object, oldObject } = request;
  const isNamespace = resource.group === "" && resource.plural === "namespaces";
  const labels = isNamespace ? (object ?? oldObject)?.metadata.labels : namespace?.metadata.labels;
  if ((isNamespace || namespace !== undefined) && !matchesSelector(valueAt(match, "namespaceSelector"), labels)) return false;
  const selector = valueAt(match, "objectSelector");
  return [object, oldObject].some((each) => each !== undefined && matchesSelector(selector, each.metadata.labels));
}

function matchesSelector(selector: unknown, labels: Readonly<Record<string, string>> | undefined): boolean {
  return !isJsonObject(selector) || selectorFromObject(selector).matches(labels ?? {});
}

function matchesRule(rule: unknown, match: unknown, request: AdmissionRequest): boolean {
  const { operation, resource, subresource, namespace, name } = request;
  const has = (field: string, value: string): boolean => {
    const values = listAt(rule, field);
    return values.includes("*") || values.includes(value);
  };
  const scope = textAt(rule, "scope");
  const isInScope = scope === "" || scope === "*" || (scope === "Namespaced") === (namespace !== "");
  const isVersionMatched = textAt(match, "matchPolicy") !== "Exact" || has("apiVersions", resource.version);
  const names = listAt(rule, "resourceNames");
  return (
    has("operations", operation) &&
    has("apiGroups", resource.group) &&
    isVersionMatched &&
    isInScope &&
    (names.length === 0 || names.includes(name)) &&
    listAt(rule, "resources").some((pattern) => matchesResource(String(pattern), resource.plural, subresource))
  );
}

// `pods`, `pods/status`, `*` for all resources; after a slash, `*` stands for the object and all subresources.
function matchesResource(pattern: string, plural: string, subresource: string): boolean {
  const [resource = "", part] = pattern.split("/");
  if (resource !== "*" && resource !== plural) return false;
  if (part === undefined) return subresource === "";
  return part === "*" || part === subresource;
}
