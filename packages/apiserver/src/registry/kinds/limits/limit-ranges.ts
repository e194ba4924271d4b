import { compareQuantities, isQuantity, quantityToMillis } from "@keelson/api-machinery/quantity";
import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { builtinResource } from "../../builtin/builtin-resource.ts";
import { listAt, mapAt, objectAt, objectsAt, setField, textAt } from "../../object-fields.ts";
import type { Read } from "../workload/workload.ts";
import { type Causes, createRepeatCheck, eachItem } from "../../causes.ts";

/** v1 LimitRanges. */
export const limitRanges = builtinResource({
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

function* limitCauses(object: Read): Causes {
  const isRepeatedType = createRepeatCheck();
  yield* eachItem(listAt(object, "spec", "limits"), function* (limit, index) {
    const at = `spec.limits[${index}]`;
    const type = textAt(limit, "type");
    const isRepeated = isRepeatedType(type);
    yield* limitTypeCauses(type, `${at}.type`);
    yield* isRepeated ? [duplicateCause(`${at}.type`, type)] : [];
    yield* resourceNameCauses(limit, type, at);
    yield* fieldCauses(limit, type, at);
    yield* orderCauses(limit, at);
    yield* ratioCauses(limit, at);
  });
}

/** Resources that every limit may name. */
const standardResource =
  /^(?:cpu|memory|ephemeral-storage|storage|hugepages-.+|(?:requests|limits)\.(?:cpu|memory|ephemeral-storage|hugepages-.+)|requests\.storage|pods|services|replicationcontrollers|resourcequotas|secrets|configmaps|persistentvolumeclaims|services\.(?:nodeports|loadbalancers))$/;
/** Resources that a container has. */
const containerResource = /^(?:cpu|memory|ephemeral-storage|hugepages-.+)$/;

function* resourceNameCauses(limit: unknown, type: string, at: string): Causes {
  const fields = type === "Pod" ? ["max", "min"] : ["max", "min", "default", "defaultRequest"];
  yield* eachItem([...fields, "maxLimitRequestRatio"], (field) =>
    Object.keys(mapAt(limit, field)).flatMap((name) => {
      const path = `${at}.${field}[${name}]`;
      const faults = [...qualifiedNameFaults(name)];
      if (faults.length === 0 && !name.includes("/") && !standardResource.test(name))
        faults.push("must be a standard resource type or fully qualified");
      if ((type === "Pod" || type === "Container") && !name.includes("/") && !containerResource.test(name)) {
        faults.push("must be a standard resource for containers");
      }
      return faults.map((fault) => invalidCause(path, name, fault));
    }),
  );
}

function fieldCauses(limit: unknown, type: string, at: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const hasStorage = ["min", "max"].some((field) => Object.hasOwn(mapAt(limit, field), "storage"));
  if (type === "PersistentVolumeClaim" && !hasStorage) {
    const detail = "either minimum or maximum storage value is required, but neither was provided";
    causes.push(requiredCause(`${at}.limits`, detail));
  }
  if (type !== "Pod") return causes;
  for (const field of ["default", "defaultRequest"]) {
    if (Object.keys(mapAt(limit, field)).length === 0) continue;
    causes.push(forbiddenCause(`${at}.${field}`, "may not be specified when `type` is 'Pod'"));
  }
  return causes;
}

/** Pairs of fields of which the first must not exceed the second, where the error is reported, and whose value it shows. */
const orders = [
  { low: "min", high: "max", field: "min", shown: "min", lowName: "min", highName: "max" },
  {
    low: "min",
    high: "defaultRequest",
    field: "defaultRequest",
    shown: "defaultRequest",
    lowName: "min",
    highName: "default request",
  },
  {
    low: "defaultRequest",
    high: "max",
    field: "defaultRequest",
    shown: "defaultRequest",
    lowName: "default request",
    highName: "max",
  },
  {
    low: "defaultRequest",
    high: "default",
    field: "defaultRequest",
    shown: "defaultRequest",
    lowName: "default request",
    highName: "default limit",
  },
  { low: "min", high: "default", field: "default", shown: "min", lowName: "min", highName: "default" },
  { low: "default", high: "max", field: "default", shown: "max", lowName: "default", highName: "max" },
] as const;

function* orderCauses(limit: unknown, at: string): Causes {
  const amount = (field: string, name: string): string | number | undefined => {
    const amounts = mapAt(limit, field);
    const value = Object.hasOwn(amounts, name) ? amounts[name] : undefined;
    return isQuantity(value) ? value : undefined;
  };
  const names = new Set(["max", "min", "default", "defaultRequest"].flatMap((field) => Object.keys(mapAt(limit, field))));
  yield* eachItem([...names], (name) =>
    orders.flatMap(({ low, high, field, shown, lowName, highName }) => {
      const [lowest, highest] = [amount(low, name), amount(high, name)];
      if (lowest === undefined || highest === undefined || compareQuantities(lowest, highest) <= 0) return [];
      const detail = `${lowName} value ${lowest} is greater than ${highName} value ${highest}`;
      return [invalidCause(`${at}.${field}[${name}]`, amount(shown, name), detail)];
    }),
  );
}

function* ratioCauses(limit: unknown, at: string): Causes {
  yield* eachItem(Object.entries(mapAt(limit, "maxLimitRequestRatio")), ([name, ratio]) => {
    if (!isQuantity(ratio)) return [];
    const path = `${at}.maxLimitRequestRatio[${name}]`;
    const causes = compareQuantities(ratio, 1) < 0 ? [invalidCause(path, ratio, `ratio ${ratio} is less than 1`)] : [];
    const [max, min] = [mapAt(limit, "max")[name], mapAt(limit, "min")[name]];
    if (!isQuantity(max) || !isQuantity(min) || quantityToMillis(min) === 0) return causes;
    const possible = quantityToMillis(max) / quantityToMillis(min);
    if (possible >= quantityToMillis(ratio) / 1_000) return causes;
    return [...causes, invalidCause(path, ratio, `ratio ${ratio} is greater than max/min = ${possible.toFixed(6)}`)];
  });
}
