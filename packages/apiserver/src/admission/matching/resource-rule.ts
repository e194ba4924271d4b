import { listAt, textAt } from "../../registry/object-fields.ts";
import type { AdmissionRequest } from "../admission.ts";

/** The resource that a rule is compared with: the request's own, or an equivalent one. */
export interface RuleSubject {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
}

/** Whether a request matches a rule (admissionregistration/v1 RuleWithOperations and NamedRuleWithOperations). */
export function matchesRule(rule: unknown, request: AdmissionRequest, subject: RuleSubject = request.resource): boolean {
  const names = listAt(rule, "resourceNames");
  return (
    isInScope(textAt(rule, "scope"), request, subject) &&
    includes(rule, "operations", request.operation) &&
    includes(rule, "apiGroups", subject.group) &&
    includes(rule, "apiVersions", subject.version) &&
    listAt(rule, "resources").some((pattern) => matchesResource(String(pattern), subject.plural, request.subresource)) &&
    (names.length === 0 || names.includes(request.name))
  );
}

function includes(rule: unknown, field: string, value: string): boolean {
  const values = listAt(rule, field);
  return values.includes("*") || values.includes(value);
}

/** Namespaces are cluster-scoped. */
function isInScope(scope: string, { namespace }: AdmissionRequest, { group, plural }: RuleSubject): boolean {
  if (scope === "" || scope === "*") return true;
  const isNamespaced = namespace !== "" && !(group === "" && plural === "namespaces");
  return (scope === "Namespaced") === isNamespaced;
}

/** `pods`, `pods/status`, `*` for all resources; after a slash, `*` stands for the object and all subresources. */
function matchesResource(pattern: string, plural: string, subresource: string): boolean {
  const slash = pattern.indexOf("/");
  const resource = slash < 0 ? pattern : pattern.slice(0, slash);
  const part = slash < 0 ? "" : pattern.slice(slash + 1);
  return (resource === "*" || resource === plural) && (part === "*" || part === subresource);
}
