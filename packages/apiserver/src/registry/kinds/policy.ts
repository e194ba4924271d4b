import { jsonEquals } from "@keelson/api-machinery";
import { compareQuantities, isQuantity, quantityToBytes } from "@keelson/api-machinery/quantity";
import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../builtin/builtin-resource.ts";
import * as check from "../field-checks.ts";
import { listAt, mapAt, objectAt, objectsAt, setField, textAt, valueAt } from "../object-fields.ts";
import type { ServedResource } from "../served-resource.ts";
import { systemPriorities } from "./pod/priority.ts";
import { countAt, type Read, statusCauses } from "./workload/workload.ts";

/** PodDisruptionBudgets, LimitRanges, ResourceQuotas and PriorityClasses. */
export function policyKinds(): readonly ServedResource[] {
  return [limitRanges, resourceQuotas, podDisruptionBudgets, priorityClasses];
}

const podDisruptionBudgets = builtinResource({
  group: "policy",
  version: "v1",
  kind: "PodDisruptionBudget",
  plural: "poddisruptionbudgets",
  shortNames: ["pdb"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Min Available", "The minimum number of available Pods."),
    column("Max Unavailable", "The maximum number of unavailable Pods."),
    column("Allowed Disruptions", "How many Pods may be disrupted now.", { type: "integer" }),
    ageColumn,
  ],
  cells: (object, now) => [
    String(valueAt(object, "spec", "minAvailable") ?? "N/A"),
    String(valueAt(object, "spec", "maxUnavailable") ?? "N/A"),
    countAt(object, "status", "disruptionsAllowed"),
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    prepareForCreate: (object) =>
      setField(object, "status", { currentHealthy: 0, desiredHealthy: 0, disruptionsAllowed: 0, expectedPods: 0 }),
    validate: (object) => [...budgetCauses(object), ...countCauses(object)],
    status: { validate: countCauses },
  },
});

function budgetCauses(object: Read): StatusCause[] {
  const spec = valueAt(object, "spec");
  const minAvailable = valueAt(spec, "minAvailable");
  const maxUnavailable = valueAt(spec, "maxUnavailable");
  const causes: StatusCause[] = [];
  if (minAvailable !== undefined && maxUnavailable !== undefined) {
    causes.push(invalidCause("spec", mapAt(spec), "minAvailable and maxUnavailable cannot be both set"));
  }
  for (const [field, value] of [
    ["spec.minAvailable", minAvailable],
    ["spec.maxUnavailable", maxUnavailable],
  ] as const) {
    causes.push(...check.countOrPercent(field, value));
    const percent = check.percentOf(value);
    if (percent !== undefined && percent > 100) causes.push(invalidCause(field, value, "must not be greater than 100%"));
  }
  causes.push(...check.labelSelector("spec.selector", valueAt(spec, "selector")));
  const policy = valueAt(spec, "unhealthyPodEvictionPolicy");
  causes.push(...check.oneOf("spec.unhealthyPodEvictionPolicy", policy, ["AlwaysAllow", "IfHealthyBudget"]));
  return causes;
}

function countCauses(object: Read): StatusCause[] {
  return statusCauses(object, ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"], []);
}

const limitRanges = builtinResource({
  group: "",
  version: "v1",
  kind: "LimitRange",
  plural: "limitranges",
  shortNames: ["limits"],
  scope: "Namespaced",
  strategy: {
    hasGeneration: false,
    default: (object) => {
      for (const limit of objectsAt(object, "spec", "limits")) {
        if (limit["type"] !== "Container") continue;
        // A missing default is the maximum, and a missing default request is the default limit.
        for (const [field, from] of [
          ["default", "max"],
          ["defaultRequest", "default"],
          ["defaultRequest", "min"],
        ] as const) {
          for (const [name, amount] of Object.entries(mapAt(limit, from))) {
            const known = objectAt(limit, field) ?? {};
            if (Object.hasOwn(known, name)) continue;
            setField(known, name, amount);
            limit[field] = known;
          }
        }
      }
    },
    validate: limitCauses,
  },
});

const limitTypes = ["Container", "PersistentVolumeClaim", "Pod"];

function limitTypeCauses(type: string, path: string): StatusCause[] {
  const faults = qualifiedNameFaults(type);
  if (faults.length > 0) return faults.map((fault) => invalidCause(path, type, fault));
  if (type.includes("/") || limitTypes.includes(type)) return [];
  return [invalidCause(path, type, "must be a standard limit type or fully qualified")];
}

function limitCauses(object: Read): StatusCause[] {
  const causes: StatusCause[] = [];
  const limits = listAt(object, "spec", "limits");
  for (const [index, limit] of limits.entries()) {
    const at = `spec.limits[${index}]`;
    const type = textAt(limit, "type");
    causes.push(...limitTypeCauses(type, `${at}.type`));
    if (limits.findIndex((other) => textAt(other, "type") === type) < index) causes.push(duplicateCause(`${at}.type`, type));
    const hasStorage = ["min", "max"].some((field) => Object.hasOwn(mapAt(limit, field), "storage"));
    if (type === "PersistentVolumeClaim" && !hasStorage) {
      const detail = "either minimum or maximum storage value is required, but neither was provided";
      causes.push(requiredCause(`${at}.limits`, detail));
    }
    if (type === "Pod") {
      for (const field of ["default", "defaultRequest"]) {
        if (Object.keys(mapAt(limit, field)).length === 0) continue;
        causes.push(forbiddenCause(`${at}.${field}`, "may not be specified when `type` is 'Pod'"));
      }
    }
    for (const [low, high, told] of [
      ["min", "max", "min"],
      ["min", "default", "default"],
      ["min", "defaultRequest", "defaultRequest"],
      ["defaultRequest", "default", "defaultRequest"],
      ["defaultRequest", "max", "defaultRequest"],
      ["default", "max", "default"],
    ] as const) {
      for (const [name, amount] of Object.entries(mapAt(limit, low))) {
        const highs = mapAt(limit, high);
        const other = Object.hasOwn(highs, name) ? highs[name] : undefined;
        if (!isQuantity(amount) || !isQuantity(other) || compareQuantities(amount, other) <= 0) continue;
        const detail = `${low} value ${amount} is greater than ${high} value ${other}`;
        causes.push(invalidCause(`${at}.${told}[${name}]`, amount, detail));
      }
    }
    for (const [name, ratio] of Object.entries(mapAt(limit, "maxLimitRequestRatio"))) {
      if (!isQuantity(ratio) || compareQuantities(ratio, 1) >= 0) continue;
      causes.push(invalidCause(`${at}.maxLimitRequestRatio[${name}]`, ratio, `ratio ${ratio} is less than 1`));
    }
  }
  return causes;
}

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

/** Scopes must be known and must not exclude each other. */
function scopeCauses(object: Read): StatusCause[] {
  const names = listAt(object, "spec", "scopes");
  const field = "spec.scopes";
  const causes = names
    .filter((scope) => typeof scope !== "string" || !scopes.includes(scope))
    .map(() => invalidCause(field, names, "unsupported scope"));
  for (const [one, other] of [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
  ]) {
    if (names.includes(one) && names.includes(other)) causes.push(invalidCause(field, names, "conflicting scopes"));
  }
  return causes;
}

const resourceQuotas = builtinResource({
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
    validate: (object) =>
      Object.entries(mapAt(object, "spec", "hard"))
        .flatMap(([name, amount]) => {
          const field = `spec.hard[${name}]`;
          const causes = qualifiedNameFaults(name).map((fault) => invalidCause(field, name, fault));
          if (causes.length === 0 && !name.includes("/") && !quotaResource.test(name)) {
            causes.push(invalidCause(field, name, "must be a standard resource for quota"));
          }
          if (isQuantity(amount) && compareQuantities(amount, 0) < 0) {
            causes.push(invalidCause(field, amount, "must be greater than or equal to 0"));
          }
          if (isQuantity(amount) && countedResource.test(name) && compareQuantities(quantityToBytes(amount), amount) !== 0) {
            causes.push(invalidCause(field, amount, "must be an integer"));
          }
          return causes;
        })
        .concat(scopeCauses(object)),
    validateUpdate: (object, old) =>
      jsonEquals(valueAt(object, "spec", "scopes"), valueAt(old, "spec", "scopes"))
        ? []
        : [invalidCause("spec.scopes", valueAt(object, "spec", "scopes") ?? null, "field is immutable")],
  },
});

/** The maximum priority of user-defined classes. */
const highestPriority = 1_000_000_000;

const priorityClasses = builtinResource({
  group: "scheduling.k8s.io",
  version: "v1",
  kind: "PriorityClass",
  plural: "priorityclasses",
  shortNames: ["pc"],
  scope: "Cluster",
  columns: [
    column("Value", "The priority.", { type: "integer" }),
    column("Global-Default", "Whether Pods without a class get this one.", { type: "boolean" }),
    ageColumn,
    column("PreemptionPolicy", "Whether its Pods preempt others."),
  ],
  cells: (object, now) => [
    countAt(object, "value"),
    String(valueAt(object, "globalDefault") === true),
    age(object.metadata.creationTimestamp, now),
    textAt(object, "preemptionPolicy"),
  ],
  strategy: {
    default: (object) => {
      if (valueAt(object, "preemptionPolicy") === undefined) setField(object, "preemptionPolicy", "PreemptLowerPriority");
    },
    validate: (object) => {
      const { name = "" } = object.metadata;
      const causes = check.oneOf("preemptionPolicy", valueAt(object, "preemptionPolicy"), ["Never", "PreemptLowerPriority"]);
      const isSystem = Object.hasOwn(systemPriorities, name);
      if (name.startsWith("system-") && !isSystem) {
        causes.push(
          forbiddenCause("metadata.name", "priority class names with 'system-' prefix are reserved for system use only"),
        );
      }
      if (!isSystem && countAt(object, "value") > highestPriority) {
        const detail = `maximum allowed value of a user defined priority is ${highestPriority}`;
        causes.push(forbiddenCause("value", detail));
      }
      return causes;
    },
    validateUpdate: (object, old) =>
      ["value", "preemptionPolicy"]
        .filter((field) => valueAt(object, field) !== valueAt(old, field))
        .map((field) =>
          field === "value"
            ? forbiddenCause("value", "may not be changed in an update.")
            : invalidCause(field, valueAt(object, field), "field is immutable"),
        ),
  },
});
