import {
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../../object-fields.ts";
import { type Causes, eachItem } from "../../../causes.ts";

const required = "requiredDuringSchedulingIgnoredDuringExecution";
const preferred = "preferredDuringSchedulingIgnoredDuringExecution";

/** Validates an Affinity (core/v1) at `path`. */
export function* affinityCauses(affinity: unknown, path: string): Causes {
  const wanted = valueAt(affinity, "nodeAffinity", required);
  if (wanted !== undefined) yield* nodeSelectorCauses(wanted, `${path}.nodeAffinity.${required}`);
  for (const [index, term] of listAt(affinity, "nodeAffinity", preferred).entries()) {
    yield;
    const at = `${path}.nodeAffinity.${preferred}[${index}]`;
    // kube-apiserver does not validate the values of preferred terms.
    const preference = nodeTermCauses(valueAt(term, "preference"), `${at}.preference`, { checksValues: false });
    yield* weightCauses(term, at);
    yield* preference;
  }
  for (const kind of ["podAffinity", "podAntiAffinity"]) {
    for (const [index, term] of listAt(affinity, kind, required).entries()) {
      yield;
      yield* podTermCauses(term, `${path}.${kind}.${required}[${index}]`);
    }
    for (const [index, term] of listAt(affinity, kind, preferred).entries()) {
      yield;
      const at = `${path}.${kind}.${preferred}[${index}]`;
      yield* weightCauses(term, at);
      yield* podTermCauses(valueAt(term, "podAffinityTerm"), `${at}.podAffinityTerm`);
    }
  }
}

/** Validates a NodeSelector (core/v1). */
export function* nodeSelectorCauses(selector: unknown, path: string): Causes {
  const terms = listAt(selector, "nodeSelectorTerms");
  const at = `${path}.nodeSelectorTerms`;
  if (terms.length === 0) {
    yield requiredCause(at, "must have at least one node selector term");
    return;
  }
  yield* eachItem(terms, (term, index) => nodeTermCauses(term, `${at}[${index}]`));
}

function* nodeTermCauses(
  term: unknown,
  path: string,
  { checksValues = true }: { readonly checksValues?: boolean } = {},
): Causes {
  yield* eachItem(listAt(term, "matchExpressions"), (each, index) =>
    check.labelRequirement(`${path}.matchExpressions[${index}]`, each, { isNumeric: true, checksValues }),
  );
  yield* eachItem(listAt(term, "matchFields"), (each, index) => fieldTermCauses(each, `${path}.matchFields[${index}]`));
}

function* fieldTermCauses(expression: unknown, path: string): Causes {
  const key = textAt(expression, "key");
  const operator = textAt(expression, "operator");
  if (operator !== "In" && operator !== "NotIn") {
    yield invalidCause(`${path}.operator`, operator, "not a valid selector operator");
  } else if (listAt(expression, "values").length !== 1) {
    const detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
    yield requiredCause(`${path}.values`, detail);
  }
  if (key !== "metadata.name") {
    yield invalidCause(`${path}.key`, key, "not a valid field selector key");
    return;
  }
  for (const [index, name] of listAt(expression, "values").entries()) {
    yield;
    if (typeof name !== "string") continue;
    yield* dns1123SubdomainFaults(name).map((fault) => invalidCause(`${path}.values[${index}]`, name, fault));
  }
}

function weightCauses(term: unknown, path: string): StatusCause[] {
  const weight = valueAt(term, "weight");
  if (typeof weight === "number" && weight >= 1 && weight <= 100) return [];
  return [invalidCause(`${path}.weight`, weight ?? 0, "must be in the range 1-100")];
}

function* podTermCauses(term: unknown, path: string): Causes {
  const topologyKey = textAt(term, "topologyKey");
  const namespaces = listAt(term, "namespaces").filter((name) => typeof name === "string");
  yield* check.labelSelector(`${path}.labelSelector`, valueAt(term, "labelSelector"));
  yield* check.labelSelector(`${path}.namespaceSelector`, valueAt(term, "namespaceSelector"));
  yield* eachItem(namespaces, (name) =>
    dns1123LabelFaults(name).map((fault) => invalidCause(`${path}.namespace`, name, fault)),
  );
  yield* matchLabelKeysCauses(term, path);
  yield* topologyKey === "" ? [requiredCause(`${path}.topologyKey`, "can not be empty")] : [];
  yield* labelKeyFaults(topologyKey).map((fault) => invalidCause(`${path}.topologyKey`, topologyKey, fault));
}

/** Validates `matchLabelKeys` and `mismatchLabelKeys`, which narrow the label selector alongside them. */
export function* matchLabelKeysCauses(term: unknown, path: string): Causes {
  const fields = ["matchLabelKeys", "mismatchLabelKeys"];
  if (valueAt(term, "labelSelector") === undefined) {
    const present = fields.filter((field) => listAt(term, field).length > 0);
    yield* present.map((field) => forbiddenCause(`${path}.${field}`, "must not be specified when labelSelector is not set"));
    return;
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
  yield* keys;
  yield* shared;
}
