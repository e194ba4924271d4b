import type { ServedResource } from "../registry/served-resource.ts";
import { type ResourceGroup, subresourcesOf } from "./resource-groups.ts";

/** A version of aggregated discovery (KEP-3352). Both have the same content. */
export type AggregatedVersion = "v2" | "v2beta1";

/** The media type of aggregated discovery, in requests and responses. */
export function aggregatedMediaType(version: AggregatedVersion): string {
  return `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;
}

/** The aggregated version that an Accept header prefers over plain JSON, if any. */
export function acceptedAggregatedVersion(accept: string | undefined): AggregatedVersion | undefined {
  for (const clause of accept?.split(",") ?? []) {
    const [range, ...rest] = clause.split(";").map((part) => part.trim());
    if (range === "*/*" || (range === "application/json" && rest.length === 0)) return undefined;
    if (range !== "application/json") continue;
    const parameters = new Map(rest.map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]));
    if (parameters.get("g") !== "apidiscovery.k8s.io" || parameters.get("as") !== "APIGroupDiscoveryList") continue;
    const version = parameters.get("v");
    if (version === "v2" || version === "v2beta1") return version;
  }
  return undefined;
}

/** Returns the apidiscovery.k8s.io APIGroupDiscoveryList of these groups. */
export function aggregatedDiscovery(groups: readonly ResourceGroup[], version: AggregatedVersion): unknown {
  return {
    kind: "APIGroupDiscoveryList",
    apiVersion: `apidiscovery.k8s.io/${version}`,
    metadata: {},
    items: groups.map((group) => ({
      metadata: { ...(group.name === "" ? {} : { name: group.name }), creationTimestamp: null },
      versions: group.versions.map((groupVersion) => ({
        version: groupVersion.version,
        resources: groupVersion.resources.map(resourceDiscovery),
        freshness: "Current",
      })),
    })),
  };
}

function resourceDiscovery(resource: ServedResource): object {
  const { group, version, kind, plural, scope, singular, verbs, shortNames, categories } = resource;
  const subresources = subresourcesOf(resource).map((subresource) => ({
    subresource: subresource.name,
    responseKind: { group: subresource.group, version: subresource.version, kind: subresource.kind },
    verbs: subresource.verbs,
  }));
  return {
    resource: plural,
    responseKind: { group, version, kind },
    scope,
    singularResource: singular,
    verbs,
    ...(shortNames.length === 0 ? {} : { shortNames }),
    ...(categories.length === 0 ? {} : { categories }),
    ...(subresources.length === 0 ? {} : { subresources }),
  };
}
