import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";

type ServiceView = DeepReadonly<KubernetesObject> & { readonly spec?: { readonly clusterIP?: string } };

/** A certificate with more names is rejected by some clients. */
const maxHosts = 500;

/** Names and addresses at which clients reach the programs of an App: of its Services, and of its Pods. Sorted. */
export function programHosts(services: readonly ServiceView[], pods: readonly DeepReadonly<PodObject>[]): readonly string[] {
  const hosts = new Set<string>();
  for (const { metadata, spec } of services) {
    const { name = "", namespace = "" } = metadata;
    for (const suffix of ["", `.${namespace}`, `.${namespace}.svc`, `.${namespace}.svc.cluster.local`])
      hosts.add(name + suffix);
    if (spec?.clusterIP !== undefined && spec.clusterIP !== "" && spec.clusterIP !== "None") hosts.add(spec.clusterIP);
  }
  for (const { metadata, status } of pods) {
    hosts.add(metadata.name ?? "");
    if (status?.podIP !== undefined && status.podIP !== "") hosts.add(status.podIP);
  }
  return [...hosts].sort().slice(0, maxHosts);
}
