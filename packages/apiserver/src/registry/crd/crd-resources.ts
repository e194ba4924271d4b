import { type DeepReadonly, type KubernetesObject, statusError } from "@keelson/api-machinery";
import { completeObjectSchema, type PrinterColumn } from "@keelson/api-machinery/schema";
import { type CustomResourceDefinition, isConditionTrue } from "./crd-spec.ts";
import type { PruningMark } from "./pruning-mark.ts";
import { valueAt } from "../object-fields.ts";
import type { ConvertByWebhook, ServedResource, Strategy, Verb } from "../served-resource.ts";

type Crd = DeepReadonly<CustomResourceDefinition>;

/** In the order of kube-apiserver's discovery. */
const customVerbs: readonly Verb[] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/** The column of custom kinds without their own. */
const ageColumn: PrinterColumn = {
  name: "Age",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
  description: "How long ago the object was created.",
};

/**
 * The resources of a CRD: one per served version, none before it is established. `pruning` is shared by all of them; `conversion` is that
 * of a CRD with a webhook.
 */
export function crdResources(crd: Crd, pruning?: PruningMark, conversion?: ConvertByWebhook): readonly ServedResource[] {
  if (!isConditionTrue(crd, "Established")) return [];
  const { group, scope, versions } = crd.spec;
  const names = { ...crd.spec.names, ...crd.status?.acceptedNames };
  const storage = versions.find((version) => version.storage)?.name ?? versions[0]?.name ?? "";
  const strategy: Strategy = crd.metadata.deletionTimestamp === undefined ? {} : terminating;
  return versions
    .filter(({ served }) => served)
    .map((version) => ({
      group,
      version: version.name,
      kind: names.kind,
      listKind: names.listKind,
      plural: names.plural,
      singular: names.singular,
      shortNames: names.shortNames ?? [],
      categories: names.categories ?? [],
      scope,
      verbs: customVerbs,
      storageApiVersion: `${group}/${storage}`,
      schema: completeObjectSchema(version.schema?.openAPIV3Schema ?? {}),
      origin: "custom",
      hasStatus: version.subresources?.status !== undefined,
      ...(version.subresources?.scale === undefined ? {} : { scale: version.subresources.scale }),
      columns: version.additionalPrinterColumns?.length ? version.additionalPrinterColumns : [ageColumn],
      strategy,
      selectableFields: selectableFields(version.selectableFields ?? []),
      ...(conversion === undefined ? {} : { convertByWebhook: conversion }),
      ...(pruning === undefined ? {} : { pruning }),
      ...(version.deprecated ? { deprecationWarning: deprecationWarning(crd, version) } : {}),
    }));
}

const terminating: Strategy = {
  prepareForCreate: () => {
    throw statusError("MethodNotAllowed", "create not allowed while custom resource definition is terminating");
  },
};

function deprecationWarning(crd: Crd, version: Crd["spec"]["versions"][number]): string {
  return version.deprecationWarning ?? `${crd.spec.group}/${version.name} ${crd.spec.names.kind} is deprecated`;
}

/** Selectable paths such as `.spec.color` as field selectors `spec.color`. */
function selectableFields(fields: readonly { readonly jsonPath: string }[]): ServedResource["selectableFields"] {
  const result: Record<string, (object: DeepReadonly<KubernetesObject>) => string> = {};
  for (const { jsonPath } of fields) {
    const steps = jsonPath.slice(1).split(".");
    result[steps.join(".")] = (object) => {
      const value = valueAt(object, ...steps);
      return value === undefined || value === null || typeof value === "object" ? "" : String(value);
    };
  }
  return result;
}
