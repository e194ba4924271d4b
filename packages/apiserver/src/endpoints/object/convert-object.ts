import { apiVersionOf, type DeepReadonly, draft, type KubernetesObject, parseApiVersion } from "@keelson/api-machinery";
import { prune } from "@keelson/api-machinery/server";
import type { ResourceTable, ServedResource } from "../../registry/served-resource.ts";

/** A version of a kind: its `apiVersion` and how objects are converted to it. */
type Convertible = Pick<ServedResource, "group" | "plural" | "convertByWebhook">;

/**
 * Converts custom objects to a version of their kind, by the webhook of the CRD or, with the conversion strategy `None`, by dropping the
 * fields that the version does not have. Defaults are not applied: they apply to requests, not to conversion.
 *
 * **Errors**: a `StatusError` without a reason (500) if the webhook fails.
 */
export async function convertCustomObjects(
  resource: Convertible,
  resources: Pick<ResourceTable, "get">,
  objects: readonly DeepReadonly<KubernetesObject>[],
  apiVersion: string,
): Promise<readonly KubernetesObject[]> {
  const { group, version } = parseApiVersion(apiVersion);
  const schema = resources.get(group, version, resource.plural)?.schema;
  const converted =
    resource.convertByWebhook === undefined
      ? objects.map((object) => ({ ...object, apiVersion }))
      : await resource.convertByWebhook(objects, apiVersion);
  return converted.map((object) => (schema === undefined ? draft(object) : prune(schema, object).value) as KubernetesObject);
}

/** Converts an object between two resources through which its kind is served. */
export async function convertObject(
  object: DeepReadonly<KubernetesObject>,
  from: ServedResource,
  to: ServedResource,
  resources: Pick<ResourceTable, "get">,
): Promise<DeepReadonly<KubernetesObject>> {
  if (from === to) return object;
  const apiVersion = apiVersionOf(to);
  if (to.origin === "custom") {
    const [converted] = await convertCustomObjects(to, resources, [object], apiVersion);
    return converted ?? object;
  }
  const stored = from.conversion === undefined ? object : from.conversion.toStorage(draft(object));
  if (to.conversion !== undefined) return to.conversion.fromStorage(stored);
  return { ...stored, apiVersion, kind: to.kind };
}
