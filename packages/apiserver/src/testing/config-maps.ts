import type { ServedResource } from "../registry/served-resource.ts";

/** ConfigMaps as a resource that is served, without rules of its own: for tests of what stands in front of the pipeline. */
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
