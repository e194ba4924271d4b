import type { ServedResource } from "../registry/served-resource.ts";

/** ConfigMaps as a served resource without a strategy, for tests of the layers in front of the pipeline. */
export const configMaps: ServedResource = {
  group: "",
  version: "v1",
  kind: "ConfigMap",
  listKind: "ConfigMapList",
  plural: "configmaps",
  singular: "configmap",
  shortNames: ["cm"],
  categories: [],
  scope: "Namespaced",
  verbs: [],
  storageApiVersion: "v1",
  schema: { type: "object" },
  origin: "builtin",
  hasStatus: false,
  columns: [],
  strategy: {},
  selectableFields: {},
};
