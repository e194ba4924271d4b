import type { ServedResource } from "../registry/served-resource.ts";
import { type GroupVersion, type ResourceGroup, subresourcesOf } from "./resource-groups.ts";

/** The media type of aggregated discovery (KEP-3352), in requests and responses. Kubernetes 1.35 no longer serves v2beta1. */
export const aggregatedMediaType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/** How discovery is requested. */
export type DiscoveryForm = "aggregated" | "plain" | "unacceptable";

/**
 * The form of discovery that an Accept header selects. Like kube-apiserver, an accepted aggregated form wins over plain JSON regardless of
 * their order. A header with nothing but unsupported forms is unacceptable.
 */
export function discoveryForm(accept: string | undefined): DiscoveryForm {
  let hasUnsupported = false;
  let hasOther = accept === undefined || accept === "";
  for (const clause of accept?.split(",") ?? []) {
    const [range, ...rest] = clause.split(";").map((part) => part.trim());
    const parameters = new Map(rest.map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]));
    if (range !== "application/json" || !parameters.has("as")) hasOther = true;
    else if (
      parameters.get("g") === "apidiscovery.k8s.io" &&
      parameters.get("as") === "APIGroupDiscoveryList" &&
      parameters.get("v") === "v2"
    ) {
      return "aggregated";
    } else hasUnsupported = true;
  }
  return hasUnsupported && !hasOther ? "unacceptable" : "plain";
}

/** Returns the apidiscovery.k8s.io APIGroupDiscoveryList of these groups. */
export function aggregatedDiscovery(groups: readonly ResourceGroup[]): unknown {
  return {
    kind: "APIGroupDiscoveryList",
    apiVersion: "apidiscovery.k8s.io/v2",
    metadata: {},
    items: groups.map((group) => ({
      metadata: { ...(group.name === "" ? {} : { name: group.name }), creationTimestamp: null },
      versions: group.versions.map(versionDiscovery),
    })),
  };
}

/** Resources of an extension API server that is not available are stale. */
function versionDiscovery({ version, resources, remote }: GroupVersion): object {
  if (remote === undefined) return { version, resources: resources.map(resourceDiscovery), freshness: "Current" };
  const isCurrent = remote.isAvailable && remote.discovery !== undefined;
  return { version, ...remote.discovery, freshness: isCurrent ? "Current" : "Stale" };
}

function resourceDiscovery(resource: ServedResource): object {
  const { plural, scope, singular, verbs, shortNames, categories } = resource;
  const subresources = subresourcesOf(resource).map((subresource) => ({
    subresource: subresource.name,
    responseKind: responseKind(resource, subresource),
    verbs: subresource.verbs,
  }));
  return {
    resource: plural,
    responseKind: responseKind(resource, resource),
    scope,
    singularResource: singular,
    verbs,
    ...(shortNames.length === 0 ? {} : { shortNames }),
    ...(categories.length === 0 ? {} : { categories }),
    ...(subresources.length === 0 ? {} : { subresources }),
  };
}

/** The kind of a response. Like kube-apiserver, group and version are empty for a built-in resource's own. */
function responseKind(
  resource: ServedResource,
  { group, version, kind }: { readonly group: string; readonly version: string; readonly kind: string },
): object {
  const isOwn = resource.origin === "builtin" && group === resource.group && version === resource.version;
  return isOwn ? { group: "", version: "", kind } : { group, version, kind };
}
