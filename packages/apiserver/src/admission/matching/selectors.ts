import { type DeepReadonly, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { everything, type Selector, selectorFromObject } from "@keelson/api-machinery/selectors";
import { notFound } from "../../endpoints/errors.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import type { AdmissionRequest } from "../admission.ts";

const namespaces = { group: "", plural: "namespaces" };

/** A selector of a configuration; one that is absent selects everything. */
export function selectorOf(selector: unknown): Selector {
  return isJsonObject(selector) ? selectorFromObject(selector) : everything;
}

/** Whether the new or the old object of a request matches an object selector. */
export function matchesObject(selector: Selector, { object, oldObject }: AdmissionRequest): boolean {
  if (selector.isEmpty) return true;
  return [object, oldObject].some((each) => each !== undefined && selector.matches(each.metadata?.labels));
}

/** Whether a request is about a Namespace itself. */
function isNamespace({ resource }: AdmissionRequest): boolean {
  return resource.group === "" && resource.plural === "namespaces";
}

/** `namespace` of a request as webhooks and policies see it: that of a Namespace is its own name. */
export function namespaceOf(request: AdmissionRequest): string {
  return isNamespace(request) ? nameOf(request) : request.namespace;
}

/** The name of a request's object; `""` if it has yet to be generated. */
export function nameOf({ name, object, oldObject }: AdmissionRequest): string {
  return name || (object ?? oldObject)?.metadata?.name || "";
}

/** The Namespace that a request is about or in; undefined for other cluster-scoped objects and if it does not exist. */
export function requestNamespace(
  store: Pick<Store, "get">,
  request: AdmissionRequest,
): DeepReadonly<KubernetesObject> | undefined {
  const { operation, subresource, object } = request;
  if (isNamespace(request) && subresource === "" && (operation === "CREATE" || operation === "UPDATE")) return object;
  const name = namespaceOf(request);
  return name === "" ? undefined : store.get(storageKey(namespaces, "", name))?.object;
}

/**
 * Whether a request's namespace matches a selector. Cluster-scoped objects other than Namespaces always do. Throws `NotFound` for a
 * namespace that does not exist.
 */
export function matchesNamespace(selector: Selector, request: AdmissionRequest, store: Pick<Store, "get">): boolean {
  const name = namespaceOf(request);
  if (selector.isEmpty || (name === "" && !isNamespace(request))) return true;
  const namespace = requestNamespace(store, request);
  if (namespace === undefined) throw notFound(namespaces, name);
  return selector.matches(namespace.metadata.labels);
}
