import {
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";

const required = "requiredDuringSchedulingIgnoredDuringExecution";
const preferred = "preferredDuringSchedulingIgnoredDuringExecution";

/** Validates an Affinity (core/v1) at `path`. */
export function affinityCauses(affinity: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const wanted = valueAt(affinity, "nodeAffinity", required);
  if (wanted !== undefined) causes.push(...nodeSelectorCauses(wanted, `${path}.nodeAffinity.${required}`));
  for (const [index, term] of listAt(affinity, "nodeAffinity", preferred).entries()) {
    const at = `${path}.nodeAffinity.${preferred}[${index}]`;
    // kube-apiserver does not validate the values of preferred terms.
    const preference = nodeTermCauses(valueAt(term, "preference"), `${at}.preference`, { checksValues: false });
    causes.push(...weightCauses(term, at), ...preference);
  }
  for (const kind of ["podAffinity", "podAntiAffinity"]) {
    for (const [index, term] of listAt(affinity, kind, required).entries()) {
      causes.push(...podTermCauses(term, `${path}.${kind}.${required}[${index}]`));
    }
    for (const [index, term] of listAt(affinity, kind, preferred).entries()) {
      const at = `${path}.${kind}.${preferred}[${index}]`;
      causes.push(...weightCauses(term, at), ...podTermCauses(valueAt(term, "podAffinityTerm"), `${at}.podAffinityTerm`));
    }
  }
  return causes;
}

/** Validates a NodeSelector (core/v1). */
export function nodeSelectorCauses(selector: unknown, path: string): StatusCause[] {
  const terms = listAt(selector, "nodeSelectorTerms");
  const at = `${path}.nodeSelectorTerms`;
  if (terms.length === 0) return [requiredCause(at, "must have at least one node selector term")];
  return terms.flatMap((term, index) => nodeTermCauses(term, `${at}[${index}]`));
}

function nodeTermCauses(
  term: unknown,
  path: string,
  { checksValues = true }: { readonly checksValues?: boolean } = {},
): StatusCause[] {
  return [
    ...listAt(term, "matchExpressions").flatMap((each, index) =>
      check.labelRequirement(`${path}.matchExpressions[${index}]`, each, { isNumeric: true, checksValues }),
    ),
    ...listAt(term, "matchFields").flatMap((each, index) => fieldTermCauses(each, `${path}.matchFields[${index}]`)),
  ];
}

function fieldTermCauses(expression: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const key = textAt(expression, "key");
  const operator = textAt(expression, "operator");
  if (operator !== "In" && operator !== "NotIn") {
    causes.push(invalidCause(`${path}.operator`, operator, "not a valid selector operator"));
  } else if (listAt(expression, "values").length !== 1) {
    const detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
    causes.push(requiredCause(`${path}.values`, detail));
  }
  if (key !== "metadata.name") return [...causes, invalidCause(`${path}.key`, key, "not a valid field selector key")];
  for (const [index, name] of listAt(expression, "values").entries()) {
    if (typeof name !== "string") continue;
    causes.push(...dns1123SubdomainFaults(name).map((fault) => invalidCause(`${path}.values[${index}]`, name, fault)));
  }
  return causes;
}

function weightCauses(term: unknown, path: string): StatusCause[] {
  const weight = valueAt(term, "weight");
  if (typeof weight === "number" && weight >= 1 && weight <= 100) return [];
  return [invalidCause(`${path}.weight`, weight ?? 0, "must be in the range 1-100")];
}

function podTermCauses(term: unknown, path: string): StatusCause[] {
  const topologyKey = textAt(term, "topologyKey");
  const namespaces = listAt(term, "namespaces").filter((name) => typeof name === "string");
  return [
    ...check.labelSelector(`${path}.labelSelector`, valueAt(term, "labelSelector")),
    ...check.labelSelector(`${path}.namespaceSelector`, valueAt(term, "namespaceSelector")),
    ...namespaces.flatMap((name) => dns1123LabelFaults(name).map((fault) => invalidCause(`${path}.namespace`, name, fault))),
    ...matchLabelKeysCauses(term, path),
    ...(topologyKey === "" ? [requiredCause(`${path}.topologyKey`, "can not be empty")] : []),
    ...labelKeyFaults(topologyKey).map((fault) => invalidCause(`${path}.topologyKey`, topologyKey, fault)),
  ];
}

/** Validates `matchLabelKeys` and `mismatchLabelKeys`, which narrow the label selector beside them. */
export function matchLabelKeysCauses(term: unknown, path: string): StatusCause[] {
  const fields = ["matchLabelKeys", "mismatchLabelKeys"];
  if (valueAt(term, "labelSelector") === undefined) {
    const present = fields.filter((field) => listAt(term, field).length > 0);
    return present.map((field) => forbiddenCause(`${path}.${field}`, "must not be specified when labelSelector is not set"));
  }
  const keys = fields.flatMap((field) =>
    listAt(term, field).flatMap((key, index) => {
      const text = typeof key === "string" ? key : "";
      return labelKeyFaults(text).map((fault) => invalidCause(`${path}.${field}[${index}]`, text, fault));
    }),
  );
  const mismatching = new Set(listAt(term, "mismatchLabelKeys"));
  const shared = listAt(term, "matchLabelKeys").flatMap((key, index) =>
    mismatching.has(key)
      ? [invalidCause(`${path}.matchLabelKeys[${index}]`, key, "exists in both matchLabelKeys and mismatchLabelKeys")]
      : [],
  );
  return [...keys, ...shared];
}
