import type { JsonObject } from "@keelson/api-machinery";
import type { Outcome } from "../endpoints/outcome.ts";
import type { ServedResource } from "../registry/served-resource.ts";
import { compareVersionPriority } from "../registry/version-order.ts";

/** The resources of one group version in discovery order. */
export interface GroupVersion {
  readonly group: string;
  readonly version: string;
  /** Empty for an extension API server's. */
  readonly resources: readonly ServedResource[];
  /** The extension API server that serves it. Undefined: this server. */
  readonly remote?: RemoteVersion;
}

/** A group version that an extension API server serves. */
export interface RemoteVersion {
  readonly group: string;
  readonly version: string;
  readonly groupPriority: number;
  readonly versionPriority: number;
  readonly isAvailable: boolean;
  /** apidiscovery.k8s.io/v2 APIVersionDiscovery; undefined until it was read. */
  readonly discovery: JsonObject | undefined;
  /** Its part of the OpenAPI v2 document. */
  readonly openApiV2: { readonly paths: JsonObject; readonly definitions: JsonObject } | undefined;
  /** The path and query of its OpenAPI v3 document. */
  readonly openApiV3: string | undefined;
}

/** The group versions of extension API servers. */
export interface RemoteApis {
  remoteVersions(): readonly RemoteVersion[];
  /** The priority of one of the server's own groups. */
  localGroupPriority(group: string): number;
  onChange(listener: () => void): () => void;
  /** Reads an OpenAPI v3 document. */
  openApiV3(group: string, version: string, path: string, accept: string): Promise<Outcome>;
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

/**
 * Adds the group versions of extension API servers. These replace own ones of the same name. Groups are ordered by priority, then by name;
 * the versions of a group with extensions by priority.
 */
export function withRemoteVersions(own: readonly ResourceGroup[], apis: RemoteApis | undefined): readonly ResourceGroup[] {
  const remotes = apis?.remoteVersions() ?? [];
  if (apis === undefined || remotes.length === 0) return own;
  const names = [...new Set([...own.map(({ name }) => name), ...remotes.map(({ group }) => group)])];
  const groups = names.map((name) => {
    const added = remotes.filter(({ group }) => group === name);
    const replaced = new Set(added.map(({ version }) => version));
    const local = own.find((group) => group.name === name)?.versions.filter(({ version }) => !replaced.has(version)) ?? [];
    const remote = added.map((version) => ({ group: name, version: version.version, resources: [], remote: version }));
    const priority = Math.max(
      ...(local.length === 0 ? [] : [apis.localGroupPriority(name)]),
      ...added.map(({ groupPriority }) => groupPriority),
    );
    const versions = added.length === 0 ? local : [...local, ...remote].sort(compareGroupVersions);
    return { name, versions, priority };
  });
  return groups.sort((a, b) => b.priority - a.priority || (a.name < b.name ? -1 : 1));
}

/** The version priority of CustomResourceDefinitions. */
const localVersionPriority = 100;

function compareGroupVersions(a: GroupVersion, b: GroupVersion): number {
  const priorityOf = ({ remote }: GroupVersion): number => remote?.versionPriority ?? localVersionPriority;
  return priorityOf(b) - priorityOf(a) || compareVersionPriority(a.version, b.version);
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
