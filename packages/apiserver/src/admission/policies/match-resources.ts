import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import type { ResourceTable, ServedResource } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import type { AdmissionRequest } from "../admission.ts";
import { matchedResource } from "../matching/equivalent-resources.ts";
import { matchesNamespace, matchesObject, selectorOf } from "../matching/selectors.ts";

/** What decides whether a policy matches a request. */
export interface MatchContext {
  readonly store: Pick<Store, "get">;
  readonly resources: Pick<ResourceTable, "list">;
}

/**
 * Finds the resource by which a request matches MatchResources (admissionregistration/v1): rules, exclusions and selectors. Without rules
 * it is the request's own. Undefined if it does not match. Throws `NotFound` if the namespace does not exist.
 */
export function matchResources(
  match: unknown,
  request: AdmissionRequest,
  { store, resources }: MatchContext,
): ServedResource | undefined {
  const policy = textAt(match, "matchPolicy");
  const rules = listAt(match, "resourceRules");
  const resource = rules.length === 0 ? request.resource : matchedResource(rules, policy, request, resources);
  if (resource === undefined) return undefined;
  const excluded = listAt(match, "excludeResourceRules");
  if (excluded.length > 0 && matchedResource(excluded, policy, request, resources) !== undefined) return undefined;
  if (!matchesObject(selectorOf(valueAt(match, "objectSelector")), request)) return undefined;
  return matchesNamespace(selectorOf(valueAt(match, "namespaceSelector")), request, store) ? resource : undefined;
}
