/** The group versions in the type registry of Kubernetes 1.35, served or not. */
const versionsByGroup: Readonly<Record<string, readonly string[]>> = {
  "": ["v1"],
  "admission.k8s.io": ["v1", "v1beta1"],
  "admissionregistration.k8s.io": ["v1", "v1alpha1", "v1beta1"],
  "apiextensions.k8s.io": ["v1", "v1beta1"],
  "apiregistration.k8s.io": ["v1", "v1beta1"],
  apps: ["v1", "v1beta1", "v1beta2"],
  "authentication.k8s.io": ["v1", "v1alpha1", "v1beta1"],
  "authorization.k8s.io": ["v1", "v1beta1"],
  autoscaling: ["v1", "v2", "v2beta1", "v2beta2"],
  batch: ["v1", "v1beta1"],
  "certificates.k8s.io": ["v1", "v1alpha1", "v1beta1"],
  "coordination.k8s.io": ["v1", "v1alpha2", "v1beta1"],
  "discovery.k8s.io": ["v1", "v1beta1"],
  "events.k8s.io": ["v1", "v1beta1"],
  extensions: ["v1beta1"],
  "flowcontrol.apiserver.k8s.io": ["v1", "v1beta1", "v1beta2", "v1beta3"],
  "imagepolicy.k8s.io": ["v1alpha1"],
  "internal.apiserver.k8s.io": ["v1alpha1"],
  "networking.k8s.io": ["v1", "v1beta1"],
  "node.k8s.io": ["v1", "v1alpha1", "v1beta1"],
  policy: ["v1", "v1beta1"],
  "rbac.authorization.k8s.io": ["v1", "v1alpha1", "v1beta1"],
  "resource.k8s.io": ["v1", "v1alpha3", "v1beta1", "v1beta2"],
  "scheduling.k8s.io": ["v1", "v1alpha1", "v1beta1"],
  "storage.k8s.io": ["v1", "v1alpha1", "v1beta1"],
  "storagemigration.k8s.io": ["v1beta1"],
};

/** Groups whose types the part of kube-apiserver that serves custom resources does not know. */
const withoutCustomKinds: ReadonlySet<string> = new Set([
  "admission.k8s.io",
  "apiextensions.k8s.io",
  "apiregistration.k8s.io",
  "imagepolicy.k8s.io",
]);

/** Every group version that Kubernetes 1.35 knows, in order, or those that documents of custom kinds name. */
export function knownGroupVersions(isOfCustomKinds: boolean): readonly { readonly group: string; readonly version: string }[] {
  return Object.entries(versionsByGroup)
    .filter(([group]) => !isOfCustomKinds || !withoutCustomKinds.has(group))
    .flatMap(([group, versions]) => versions.map((version) => ({ group, version })));
}
