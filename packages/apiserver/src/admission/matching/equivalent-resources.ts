import type { ResourceTable, ServedResource } from "../../registry/served-resource.ts";
import type { AdmissionRequest } from "../admission.ts";
import { matchesRule } from "./resource-rule.ts";

/** The other resources through which a request's object is served: other versions, and Events of the other group. */
function equivalentResources(resources: Pick<ResourceTable, "list">, resource: ServedResource): ServedResource[] {
  const { storageApiVersion, plural } = resource;
  return resources
    .list()
    .filter((each) => each !== resource && each.plural === plural && each.storageApiVersion === storageApiVersion);
}

/**
 * Finds the resource by which a request matches one of `rules`: its own or, with the match policy `Equivalent`, an equivalent one. Undefined
 * if none matches.
 */
export function matchedResource(
  rules: readonly unknown[],
  matchPolicy: string,
  request: AdmissionRequest,
  resources: Pick<ResourceTable, "list">,
): ServedResource | undefined {
  if (rules.some((rule) => matchesRule(rule, request))) return request.resource;
  if (matchPolicy === "Exact") return undefined;
  const equivalents = equivalentResources(resources, request.resource);
  for (const rule of equivalents.length === 0 ? [] : rules) {
    const found = equivalents.find((each) => matchesRule(rule, request, each));
    if (found !== undefined) return found;
  }
  return undefined;
}
