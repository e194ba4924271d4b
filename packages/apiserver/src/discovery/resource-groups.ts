import type { ServedResource } from "../registry/served-resource.ts";
import { compareVersionPriority } from "../registry/version-order.ts";

/** The resources of one group version in discovery order. */
export interface GroupVersion {
  readonly group: string;
  readonly version: string;
  readonly resources: readonly ServedResource[];
}

/** A group and its versions, preferred version first. */
export interface ResourceGroup {
  readonly name: string;
  readonly versions: readonly GroupVersion[];
}

/** Groups resources by group and version. Groups keep their order. */
export function groupResources(resources: readonly ServedResource[]): readonly ResourceGroup[] {
  const groups = new Map<string, Map<string, ServedResource[]>>();
  for (const resource of resources) {
    const versions = groups.get(resource.group) ?? new Map<string, ServedResource[]>();
    groups.set(resource.group, versions);
    const members = versions.get(resource.version) ?? [];
    versions.set(resource.version, members);
    members.push(resource);
  }
  return [...groups].map(([name, versions]) => ({
    name,
    versions: [...versions]
      .sort(([a], [b]) => compareVersionPriority(a, b))
      .map(([version, members]) => ({ group: name, version, resources: members })),
  }));
}

/** A subresource in discovery. */
export interface DiscoveredSubresource {
  readonly name: string;
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly verbs: readonly string[];
}

/** All subresources of a resource: its own, status and scale. */
export function subresourcesOf(resource: ServedResource): readonly DiscoveredSubresource[] {
  const { group, version, kind } = resource;
  const verbs = ["get", "patch", "update"];
  const own = (resource.subresources ?? []).map((subresource) => ({
    name: subresource.name,
    group: subresource.group ?? group,
    version: subresource.version ?? version,
    kind: subresource.kind,
    verbs: subresource.verbs,
  }));
  const all = [
    ...own,
    ...(resource.hasStatus ? [{ name: "status", group, version, kind, verbs }] : []),
    ...(resource.scale === undefined ? [] : [{ name: "scale", group: "autoscaling", version: "v1", kind: "Scale", verbs }]),
  ];
  // kube-apiserver lists those of a built-in resource by name.
  return resource.origin === "builtin" ? all.sort((a, b) => (a.name < b.name ? -1 : 1)) : all;
}
