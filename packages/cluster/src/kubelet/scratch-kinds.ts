import { builtinResource } from "../../../apiserver/src/registry/builtin/builtin-resource.ts";
const b = (group: string, kind: string, plural: string, scope: "Namespaced" | "Cluster" = "Namespaced", extra: object = {}) => builtinResource({ group, version: "v1", kind, plural, scope, hasStatus: true, ...extra });
export const kinds = [
  b("", "Pod", "pods", "Namespaced", { strategy: { defaultGraceSeconds: 30 } }), b("", "Node", "nodes", "Cluster"), b("", "Service", "services"),
  b("", "PersistentVolumeClaim", "persistentvolumeclaims"), b("", "PersistentVolume", "persistentvolumes", "Cluster"), b("discovery.k8s.io", "EndpointSlice", "endpointslices", "Namespaced", { hasStatus: false }),
];
