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
  "mutatingadmissionpolicies.admissionregistration.k8s.io",
  "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
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
/** Built-in resources whose status cannot be written with any metadata. */
const resetMetadata = new Set([
  "apiservices.apiregistration.k8s.io",
  "customresourcedefinitions.apiextensions.k8s.io",
  "flowschemas.flowcontrol.apiserver.k8s.io",
  "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
  "validatingadmissionpolicies.admissionregistration.k8s.io",
  "volumeattachments.storage.k8s.io",
]);
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

/** The metadata that a write to `status` may also change. Custom resources and some built-in ones keep theirs. */
export function statusMetadata(resource: Identified): readonly ("annotations" | "finalizers" | "labels" | "ownerReferences")[] {
  const name = qualifiedResource(resource);
  if (resource.origin === "custom" || resetMetadata.has(name)) return [];
  if (name === "pods") return ["annotations", "finalizers", "labels"];
  if (name === "deployments.apps") return ["annotations", "finalizers", "ownerReferences"];
  return ["annotations", "finalizers", "labels", "ownerReferences"];
}

/** Whether a delete returns the object's last state instead of a Status. */
export function showsDeletedObject(resource: Identified): boolean {
  return resource.origin === "builtin" && shown.has(qualifiedResource(resource));
}
