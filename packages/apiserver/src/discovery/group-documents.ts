import { createHash } from "node:crypto";
import { apiVersionOf } from "@keelson/api-machinery";
import type { ServedResource } from "../registry/served-resource.ts";
import { type GroupVersion, type ResourceGroup, subresourcesOf } from "./resource-groups.ts";

/** `/api`: meta/v1 APIVersions. `serverAddress` is the host and port that the client used. */
export function apiVersions(group: ResourceGroup | undefined, serverAddress: string): unknown {
  return {
    kind: "APIVersions",
    versions: (group?.versions ?? []).map(({ version }) => version),
    serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress }],
  };
}

/** `/apis`: meta/v1 APIGroupList. */
export function apiGroupList(groups: readonly ResourceGroup[]): unknown {
  return { kind: "APIGroupList", apiVersion: "v1", groups: groups.filter(({ name }) => name !== "").map(groupFields) };
}

/** `/apis/<group>`: meta/v1 APIGroup. */
export function apiGroup(group: ResourceGroup): unknown {
  return { kind: "APIGroup", apiVersion: "v1", ...groupFields(group) };
}

function groupFields(group: ResourceGroup): object {
  const versions = group.versions.map(({ version }) => ({ groupVersion: `${group.name}/${version}`, version }));
  return { name: group.name, versions, preferredVersion: versions[0] };
}

/** `/api/v1` and `/apis/<group>/<version>`: meta/v1 APIResourceList. */
export function apiResourceList(groupVersion: GroupVersion): unknown {
  return {
    kind: "APIResourceList",
    // Missing in the core group, as in kube-apiserver.
    ...(groupVersion.group === "" ? {} : { apiVersion: "v1" }),
    groupVersion: apiVersionOf(groupVersion),
    resources: groupVersion.resources.flatMap(apiResources),
  };
}

function apiResources(resource: ServedResource): object[] {
  const { plural, singular, kind, verbs, shortNames, categories } = resource;
  const namespaced = resource.scope === "Namespaced";
  return [
    {
      name: plural,
      singularName: singular,
      namespaced,
      kind,
      verbs,
      ...(shortNames.length === 0 ? {} : { shortNames }),
      ...(categories.length === 0 ? {} : { categories }),
      ...(verbs.includes("create") && verbs.includes("get") ? { storageVersionHash: storageVersionHash(resource) } : {}),
    },
    ...subresourcesOf(resource).map((subresource) => ({
      name: `${plural}/${subresource.name}`,
      singularName: "",
      namespaced,
      // Omitted if they equal those of the list.
      ...(subresource.group === resource.group && subresource.version === resource.version
        ? {}
        : { group: subresource.group, version: subresource.version }),
      kind: subresource.kind,
      verbs: subresource.verbs,
    })),
  ];
}

/** Changes with the version in which objects are stored: the first 8 bytes of SHA-256 of `group/version/kind` in base64. */
function storageVersionHash({ storageApiVersion, kind }: ServedResource): string {
  const groupVersion = storageApiVersion.includes("/") ? storageApiVersion : `/${storageApiVersion}`;
  return createHash("sha256").update(`${groupVersion}/${kind}`).digest().subarray(0, 8).toString("base64");
}
