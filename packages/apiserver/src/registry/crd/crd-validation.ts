import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { ruleBudgetCauses } from "@keelson/api-machinery/server";
import {
  dns1035LabelFaults,
  dns1123SubdomainFaults,
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { listAt, mapAt, textAt, valueAt } from "../object-fields.ts";
import { isConditionTrue } from "./crd-spec.ts";
import { caBundleCauses, clientConfigCauses, reviewVersionCauses } from "../webhook-client-validation.ts";
import { schemasByVersion, versionsCauses } from "./crd-version-validation.ts";
import { type Causes, countCauses, eachItem } from "../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

/**
 * Validates a CustomResourceDefinition (apiextensions/v1) with kube-apiserver's messages. Schemas that equal those of `old` are not
 * validated again: doing so for every write of the status takes most of the time that a CRD costs.
 */
export function* crdCauses(crd: Read, old?: Read): Causes {
  const spec = valueAt(crd, "spec");
  const group = textAt(spec, "group");
  const plural = textAt(spec, "names", "plural");
  const name = crd.metadata.name ?? "";
  // An update cannot change the name: kube-apiserver reports only that the group or plural is immutable.
  if (old === undefined && name !== "" && name !== `${plural}.${group}`)
    yield invalidCause("metadata.name", name, 'must be spec.names.plural+"."+spec.group');
  yield* approvalCauses(crd, group);

  if (group === "") yield requiredCause("spec.group");
  else if (dns1123SubdomainFaults(group).length > 0) {
    yield invalidCause("spec.group", group, dns1123SubdomainFaults(group).join(","));
  } else if (!group.includes(".")) yield invalidCause("spec.group", group, "should be a domain with at least one dot");

  const scope = textAt(spec, "scope");
  if (scope === "") yield requiredCause("spec.scope");
  else if (scope !== "Cluster" && scope !== "Namespaced") {
    yield notSupportedCause("spec.scope", scope, ["Cluster", "Namespaced"]);
  }
  if (valueAt(spec, "preserveUnknownFields") === true) {
    yield invalidCause(
      "spec.preserveUnknownFields",
      true,
      "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
    );
  }
  for (const field of ["plural", "singular", "kind", "listKind"]) {
    if (textAt(spec, "names", field) === "") yield requiredCause(`spec.names.${field}`);
  }
  yield* namesCauses(valueAt(spec, "names"), "spec.names");
  yield* inSharedParts(crd, versionsCauses(crd, old));
  yield* conversionCauses(spec);
}

/** Like {@link crdCauses}, for a write of the CRD itself: rejects expensive CEL rules as well, if there is no other fault. */
export function* crdSpecCauses(crd: Read, old?: Read): Causes {
  const faults = yield* countCauses(crdCauses(crd, old));
  if (faults === 0) yield* ruleCostCauses(crd, old);
}

/** Rejects changes to immutable fields of a CRD and the removal of stored versions. */
export function* crdUpdateCauses(crd: Read, old: Read): Causes {
  const immutable = [
    ["group"],
    ["names", "plural"],
    ...(isConditionTrue(old, "Established") ? [["scope"], ["names", "kind"]] : []),
  ];
  for (const path of immutable) {
    yield;
    const value = textAt(crd, "spec", ...path);
    if (value !== textAt(old, "spec", ...path)) {
      yield invalidCause(["spec", ...path].join("."), value, "field is immutable");
    }
  }
  const versions = new Set(listAt(crd, "spec", "versions").map((version) => textAt(version, "name")));
  for (const [index, stored] of listAt(crd, "status", "storedVersions").entries()) {
    yield;
    if (typeof stored === "string" && !versions.has(stored)) {
      yield invalidCause(
        `status.storedVersions[${index}]`,
        stored,
        "missing from spec.versions; " +
          `${stored} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data ` +
          `remains persisted in ${stored} and removes ${stored} from status.storedVersions`,
      );
    }
  }
}

/** Rejects CEL rules whose estimated cost exceeds the budget, in schemas that are new or changed. */
function* ruleCostCauses(crd: Read, old?: Read): Causes {
  const before = schemasByVersion(old);
  const changed = listAt(crd, "spec", "versions")
    .map((version, index) => ({ schema: schemaOf(version), old: before.get(textAt(version, "name")), index }))
    .filter(({ schema, old: previous }) => schema !== undefined && !jsonEquals(schema, previous));
  const hasRules = changed.some(({ schema }) => JSON.stringify(schema).includes('"x-kubernetes-validations"'));
  if (!hasRules) return;
  yield* inSharedParts(
    crd,
    eachItem(changed, ({ schema, index }) =>
      schema === undefined ? [] : ruleBudgetCauses(schema, `spec.versions[${index}].schema.openAPIV3Schema`),
    ),
  );
}

/** What belongs to the CRD if all versions share it, by its name in a version, with its name in the CRD. */
const sharedParts: Readonly<Record<string, string>> = {
  schema: "spec.validation",
  subresources: "spec.subresources",
  additionalPrinterColumns: "spec.additionalPrinterColumns",
  selectableFields: "spec.selectableFields",
};

/**
 * Names the fields of what all versions share as kube-apiserver does, where it belongs to the CRD: `spec.validation`. Each fault is
 * reported once.
 */
function* inSharedParts(crd: Read, causes: Causes): Causes {
  const versions = listAt(crd, "spec", "versions");
  const known = new Map<string, boolean>();
  const isSharedPart = (part: string): boolean => {
    const result = known.get(part) ?? isShared(versions, part);
    known.set(part, result);
    return result;
  };
  yield* eachItem(causes, (cause) => {
    if (cause === undefined) return [];
    const { field = "" } = cause;
    const [prefix = "", index, part = ""] = /^spec\.versions\[(\d+)\]\.([A-Za-z]+)\b/.exec(field) ?? [];
    const shared = Object.hasOwn(sharedParts, part) ? sharedParts[part] : undefined;
    if (shared === undefined || !isSharedPart(part)) return [cause];
    if (index !== "0") return [];
    // Messages about rules with `oldSelf` end with the path of a schema.
    const message = cause.message?.replace(/(?<= within )spec\.versions\[0\]\.schema\./, "spec.validation.");
    const moved =
      shared + field.slice(prefix.length).replace(/\.jsonPath$/, part === "selectableFields" ? ".jsonPath" : ".JSONPath");
    return [{ ...cause, field: moved, ...(message !== undefined && { message }) }];
  });
}

function isShared(versions: readonly unknown[], part: string): boolean {
  const [first, ...others] = versions.map((version) => (part === "schema" ? schemaOf(version) : valueAt(version, part)));
  return first !== undefined && others.every((other) => jsonEquals(other, first));
}

function schemaOf(version: unknown): Schema | undefined {
  const schema = valueAt(version, "schema", "openAPIV3Schema");
  return isJsonObject(schema) ? schema : undefined;
}

/** Community-owned groups require an approval annotation (KEP-1111). */
function approvalCauses(crd: Read, group: string): StatusCause[] {
  if (!/(^|\.)(k8s\.io|kubernetes\.io)$/.test(group)) return [];
  const path = "metadata.annotations[api-approved.kubernetes.io]";
  const approval = crd.metadata.annotations?.["api-approved.kubernetes.io"] ?? "";
  if (approval === "") {
    return [
      requiredCause(
        path,
        'protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
      ),
    ];
  }
  return approval.startsWith("unapproved") || URL.canParse(approval)
    ? []
    : [
        invalidCause(
          path,
          approval,
          'protected groups must have approval annotation with either a URL or a reason starting with "unapproved"',
        ),
      ];
}

function* namesCauses(names: unknown, path: string): Causes {
  const check = (field: string, value: string, prefix = ""): readonly StatusCause[] => {
    const faults = value === "" ? [] : dns1035LabelFaults(prefix === "" ? value : value.toLowerCase());
    return faults.length > 0 ? [invalidCause(`${path}.${field}`, value, prefix + faults.join(","))] : [];
  };
  yield* check("plural", textAt(names, "plural"));
  yield* check("singular", textAt(names, "singular"));
  const mixed = "may have mixed case, but should otherwise match: ";
  yield* check("kind", textAt(names, "kind"), mixed);
  yield* check("listKind", textAt(names, "listKind"), mixed);
  for (const field of ["shortNames", "categories"]) {
    for (const [index, value] of listAt(names, field).entries()) {
      yield;
      if (value === "") yield invalidCause(`${path}.${field}[${index}]`, "", dns1035LabelFaults("").join(","));
      else yield* check(`${field}[${index}]`, String(value));
    }
  }
  const kind = textAt(names, "kind");
  if (kind !== "" && kind === textAt(names, "listKind")) {
    yield invalidCause(`${path}.listKind`, kind, "kind and listKind may not be the same");
  }
}

function* conversionCauses(spec: unknown): Causes {
  const conversion = mapAt(spec, "conversion");
  const strategy = textAt(conversion, "strategy");
  const webhook = valueAt(conversion, "webhook");
  if (strategy !== "Webhook") {
    const detail = "should not be set when strategy is not set to Webhook";
    if (strategy === "") yield requiredCause("spec.conversion.strategy");
    else if (strategy !== "None") yield notSupportedCause("spec.conversion.strategy", strategy, ["None", "Webhook"]);
    if (valueAt(webhook, "clientConfig") !== undefined) yield forbiddenCause("spec.conversion.webhookClientConfig", detail);
    if (listAt(webhook, "conversionReviewVersions").length > 0) {
      yield forbiddenCause("spec.conversion.conversionReviewVersions", detail);
    }
    return;
  }
  const clientConfig = valueAt(webhook, "clientConfig");
  const path = "spec.conversion.webhookClientConfig";
  if (clientConfig === undefined) yield requiredCause(path, "required when strategy is set to Webhook");
  else {
    const faults = yield* countCauses(clientConfigCauses(clientConfig, path, { isSwapped: true }));
    const isClear = (valueAt(clientConfig, "url") === undefined) !== (valueAt(clientConfig, "service") === undefined);
    if (isClear || faults === 0) yield* caBundleCauses(valueAt(clientConfig, "caBundle"), `${path}.caBundle`);
  }
  yield* reviewVersionCauses(listAt(webhook, "conversionReviewVersions"), "spec.conversion.conversionReviewVersions", "");
}
