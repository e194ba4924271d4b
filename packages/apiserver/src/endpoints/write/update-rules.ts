import { qualifiedResource } from "../errors.ts";

interface Identified {
  readonly group: string;
  readonly plural: string;
  readonly origin: "builtin" | "custom";
}

const conditional = new Set([
  "apiservices.apiregistration.k8s.io",
  "csidrivers.storage.k8s.io",
  "csinodes.storage.k8s.io",
  "csistoragecapacities.storage.k8s.io",
  "customresourcedefinitions.apiextensions.k8s.io",
  "leases.coordination.k8s.io",
  "mutatingadmissionpolicies.admissionregistration.k8s.io",
  "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
  "mutatingwebhookconfigurations.admissionregistration.k8s.io",
  "poddisruptionbudgets.policy",
  "runtimeclasses.node.k8s.io",
  "storageversionmigrations.storagemigration.k8s.io",
  "validatingadmissionpolicies.admissionregistration.k8s.io",
  "validatingadmissionpolicybindings.admissionregistration.k8s.io",
  "validatingwebhookconfigurations.admissionregistration.k8s.io",
  "volumeattachments.storage.k8s.io",
]);
const created = new Set([
  "clusterrolebindings.rbac.authorization.k8s.io",
  "clusterroles.rbac.authorization.k8s.io",
  "endpoints",
  "events",
  "events.events.k8s.io",
  "leases.coordination.k8s.io",
  "limitranges",
  "rolebindings.rbac.authorization.k8s.io",
  "roles.rbac.authorization.k8s.io",
  "runtimeclasses.node.k8s.io",
  "services",
]);
/** Built-in resources whose status cannot be written with any metadata. */
const resetMetadata = new Set([
  "apiservices.apiregistration.k8s.io",
  "customresourcedefinitions.apiextensions.k8s.io",
  "flowschemas.flowcontrol.apiserver.k8s.io",
  "mutatingadmissionpolicies.admissionregistration.k8s.io",
  "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
  "resourceclaims.resource.k8s.io",
  "servicecidrs.networking.k8s.io",
  "validatingadmissionpolicies.admissionregistration.k8s.io",
  "volumeattachments.storage.k8s.io",
]);
const shown = new Set([
  "csidrivers.storage.k8s.io",
  "csinodes.storage.k8s.io",
  "deviceclasses.resource.k8s.io",
  "devicetaintrules.resource.k8s.io",
  "namespaces",
  "persistentvolumeclaims",
  "persistentvolumes",
  "pods",
  "podtemplates",
  "resourceclaims.resource.k8s.io",
  "resourceclaimtemplates.resource.k8s.io",
  "resourcequotas",
  "resourceslices.resource.k8s.io",
  "serviceaccounts",
  "services",
  "storageclasses.storage.k8s.io",
  "volumeattachments.storage.k8s.io",
  "volumeattributesclasses.storage.k8s.io",
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
