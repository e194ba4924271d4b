import { qualifiedResource } from "../errors.ts";

interface Identified {
  readonly group: string;
  readonly plural: string;
  readonly origin: "builtin" | "custom";
}

const conditional = new Set([
  "leases.coordination.k8s.io",
  "customresourcedefinitions.apiextensions.k8s.io",
  "apiservices.apiregistration.k8s.io",
  "mutatingwebhookconfigurations.admissionregistration.k8s.io",
  "validatingwebhookconfigurations.admissionregistration.k8s.io",
]);
const created = new Set([
  "events",
  "events.events.k8s.io",
  "endpoints",
  "limitranges",
  "leases.coordination.k8s.io",
  "roles.rbac.authorization.k8s.io",
  "rolebindings.rbac.authorization.k8s.io",
  "clusterroles.rbac.authorization.k8s.io",
  "clusterrolebindings.rbac.authorization.k8s.io",
]);
const labelled = new Set(["pods", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims", "services"]);
const shown = new Set([
  "pods",
  "podtemplates",
  "persistentvolumes",
  "persistentvolumeclaims",
  "resourcequotas",
  "serviceaccounts",
  "services",
  "storageclasses.storage.k8s.io",
]);

/** Whether an update may omit the resourceVersion. Updates of custom resources never may. */
export function allowsUnconditionalUpdate(resource: Identified): boolean {
  return resource.origin === "builtin" && !conditional.has(qualifiedResource(resource));
}

/** Whether an update creates a missing object. */
export function allowsCreateOnUpdate(resource: Identified): boolean {
  return resource.origin === "builtin" && created.has(qualifiedResource(resource));
}

/** Whether a write to `status` may also change labels and annotations. */
export function statusKeepsLabels(resource: Identified): boolean {
  return resource.origin === "builtin" && labelled.has(qualifiedResource(resource));
}

/** Whether a delete returns the object's last state instead of a Status. */
export function showsDeletedObject(resource: Identified): boolean {
  return resource.origin === "builtin" && shown.has(qualifiedResource(resource));
}
