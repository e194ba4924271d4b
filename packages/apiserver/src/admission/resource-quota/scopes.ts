import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { qualityOfService } from "../../registry/kinds/pod/quality-of-service.ts";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import type { QuotaKind } from "./usage.ts";

/** A condition for the objects to which a quota applies. */
interface ScopeTerm {
  readonly scope: string;
  readonly operator: string;
  readonly values: readonly unknown[];
}

/** Whether a quota applies to an object. Scopes select Pods only, VolumeAttributesClass claims. */
export function matchesScopes(quota: unknown, kind: QuotaKind, object: DeepReadonly<KubernetesObject>): boolean {
  const terms = termsOf(quota);
  if (terms.length === 0) return true;
  if (kind.group !== "") return false;
  if (kind.plural === "persistentvolumeclaims") {
    return terms.every(
      (term) =>
        term.scope === "VolumeAttributesClass" && matchesName(textAt(object, "spec", "volumeAttributesClassName"), term),
    );
  }
  return kind.plural === "pods" && terms.every((term) => matchesPod(valueAt(object, "spec"), term));
}

function termsOf(quota: unknown): readonly ScopeTerm[] {
  return [
    ...listAt(quota, "spec", "scopes").map((scope) => ({ scope: String(scope), operator: "Exists", values: [] })),
    ...listAt(quota, "spec", "scopeSelector", "matchExpressions").map((expression) => ({
      scope: textAt(expression, "scopeName"),
      operator: textAt(expression, "operator"),
      values: listAt(expression, "values"),
    })),
  ];
}

function matchesPod(spec: unknown, term: ScopeTerm): boolean {
  switch (term.scope) {
    case "Terminating":
      return valueAt(spec, "activeDeadlineSeconds") !== undefined;
    case "NotTerminating":
      return valueAt(spec, "activeDeadlineSeconds") === undefined;
    case "BestEffort":
      return qualityOfService(spec) === "BestEffort";
    case "NotBestEffort":
      return qualityOfService(spec) !== "BestEffort";
    case "PriorityClass":
      return matchesName(textAt(spec, "priorityClassName"), term);
    case "CrossNamespacePodAffinity":
      return hasCrossNamespaceAffinity(spec);
    default:
      return false;
  }
}

function matchesName(name: string, { operator, values }: ScopeTerm): boolean {
  switch (operator) {
    case "In":
      return values.includes(name);
    case "NotIn":
      return !values.includes(name);
    case "DoesNotExist":
      return name === "";
    default:
      return name !== "";
  }
}

function hasCrossNamespaceAffinity(spec: unknown): boolean {
  const required = "requiredDuringSchedulingIgnoredDuringExecution";
  const preferred = "preferredDuringSchedulingIgnoredDuringExecution";
  return ["podAffinity", "podAntiAffinity"].some((kind) => {
    const terms = [
      ...listAt(spec, "affinity", kind, required),
      ...listAt(spec, "affinity", kind, preferred).map((term) => valueAt(term, "podAffinityTerm")),
    ];
    return terms.some((term) => listAt(term, "namespaces").length > 0 || valueAt(term, "namespaceSelector") !== undefined);
  });
}
