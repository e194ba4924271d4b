import { jsonEquals } from "@keelson/api-machinery";
import { compareQuantities, isQuantity, quantityToBytes } from "@keelson/api-machinery/quantity";
import { invalidCause, qualifiedNameFaults, requiredCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { listAt, mapAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { Read } from "../workload/workload.ts";
import { type Causes, eachItem } from "../../causes.ts";

/** Resources without a domain that a quota may limit. */
const quotaResource =
  /^(?:cpu|memory|ephemeral-storage|storage|pods|services|replicationcontrollers|resourcequotas|secrets|configmaps|persistentvolumeclaims|(?:requests|limits)\.(?:cpu|memory|ephemeral-storage|hugepages-.+)|(?:requests\.)?hugepages-.+|requests\.storage|services\.(?:nodeports|loadbalancers))$/;
/** Resources with integer quantities. */
const countedResource =
  /^(?:pods|services|replicationcontrollers|resourcequotas|secrets|configmaps|persistentvolumeclaims|services\.(?:nodeports|loadbalancers)|count\/.+)$/;

const scopes = [
  "BestEffort",
  "CrossNamespacePodAffinity",
  "NotBestEffort",
  "NotTerminating",
  "PriorityClass",
  "Terminating",
  "VolumeAttributesClass",
];

/** Scopes that a Pod has or not, without a value. */
const existingScopes = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
const existsRule =
  "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, " +
  "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

/** Resources without a domain that a quota with this scope may limit. */
function scopedResource(scope: string): RegExp {
  switch (scope) {
    case "BestEffort":
      return /^pods$/;
    case "VolumeAttributesClass":
      return /^(?:persistentvolumeclaims|requests\.storage)$/;
    default:
      return /^(?:pods|cpu|memory|(?:requests|limits)\.(?:cpu|memory))$/;
  }
}

/** Validates the scope selector. kube-apiserver omits the indexes here. */
function* selectorCauses(object: Read): Causes {
  const path = "spec.scopeSelector.matchExpressions";
  yield* eachItem(listAt(object, "spec", "scopeSelector", "matchExpressions"), (expression) => {
    const scope = textAt(expression, "scopeName");
    const operator = textAt(expression, "operator");
    const values = listAt(expression, "values");
    const causes = scopes.includes(scope) ? [] : [invalidCause(`${path}.scopeName`, scope, "unsupported scope")];
    if (existingScopes.includes(scope) && operator !== "Exists")
      causes.push(invalidCause(`${path}.operator`, operator, existsRule));
    if (operator === "In" || operator === "NotIn") {
      const detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
      if (values.length === 0) causes.push(requiredCause(`${path}.values`, detail));
    } else if (operator === "Exists" || operator === "DoesNotExist") {
      const detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
      if (values.length > 0) causes.push(invalidCause(`${path}.values`, values, detail));
    } else causes.push(invalidCause(`${path}.operator`, operator, "not a valid selector operator"));
    return causes;
  });
}

/** Scopes must be known and must not exclude each other. */
function* scopeCauses(object: Read): Causes {
  const names = listAt(object, "spec", "scopes");
  const field = "spec.scopes";
  const unknown = invalidCause(field, names, "unsupported scope");
  yield* eachItem(names, (scope) => (typeof scope === "string" && scopes.includes(scope) ? [] : [unknown]));
  for (const [one, other] of [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
  ]) {
    if (names.includes(one) && names.includes(other)) yield invalidCause(field, names, "conflicting scopes");
  }
  yield* selectorCauses(object);
  const resources = Object.keys(mapAt(object, "spec", "hard"));
  const applicable = new Map(
    scopes.map((scope) => {
      const isApplicable = (resource: string): boolean =>
        !quotaResource.test(resource) || resource.includes("/") || scopedResource(scope).test(resource);
      return [scope, resources.every(isApplicable)] as const;
    }),
  );
  yield* eachItem(names, (scope) =>
    applicable.get(String(scope)) === false ? [invalidCause(field, names, "unsupported scope applied to resource")] : [],
  );
}

/** v1 ResourceQuotas. */
export const resourceQuotas = builtinResource({
  group: "",
  version: "v1",
  kind: "ResourceQuota",
  plural: "resourcequotas",
  shortNames: ["quota"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Request", "Requests used, of those allowed."),
    column("Limit", "Limits used, of those allowed."),
    ageColumn,
  ],
  cells: (object, now) => {
    const hard = Object.entries(mapAt(object, "status", "hard")).sort(([a], [b]) => (a < b ? -1 : 1));
    const used = mapAt(object, "status", "used");
    const text = (isLimit: boolean): string =>
      hard
        .filter(([name]) => name.startsWith("limits.") === isLimit)
        .map(
          ([name, amount]) =>
            `${name}: ${String((Object.hasOwn(used, name) ? used[name] : undefined) ?? "0")}/${String(amount)}`,
        )
        .join(", ");
    return [text(false), text(true), age(object.metadata.creationTimestamp, now)];
  },
  strategy: {
    hasGeneration: false,
    prepareForCreate: (object) => setField(object, "status", {}),
    *validate(object) {
      yield* eachItem(Object.entries(mapAt(object, "spec", "hard")), ([name, amount]) => {
        const field = `spec.hard[${name}]`;
        const causes = qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault));
        if (!name.includes("/") && !quotaResource.test(name)) {
          if (causes.length === 0) {
            causes.push(invalidCause(field, name, "must be a standard resource type or fully qualified"));
          }
          causes.push(invalidCause(field, name, "must be a standard resource for quota"));
        }
        if (isQuantity(amount) && compareQuantities(amount, 0) < 0) {
          causes.push(invalidCause(field, amount, "must be greater than or equal to 0"));
        }
        if (isQuantity(amount) && countedResource.test(name) && compareQuantities(quantityToBytes(amount), amount) !== 0) {
          causes.push(invalidCause(field, amount, "must be an integer"));
        }
        return causes;
      });
      yield* scopeCauses(object);
    },
    validateUpdate: (object, old) =>
      jsonEquals(valueAt(object, "spec", "scopes"), valueAt(old, "spec", "scopes"))
        ? []
        : [invalidCause("spec.scopes", valueAt(object, "spec", "scopes") ?? null, "field is immutable")],
  },
});
