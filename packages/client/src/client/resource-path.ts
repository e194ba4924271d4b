import { type ObjectKey, type ResourceType, statusError } from "@keelson/api-machinery";

/** The path of a kind's collection, in one namespace or in all. */
export function collectionPath(type: ResourceType, namespace?: string): string {
  const root = type.group === "" ? `/api/${type.version}` : `/apis/${type.group}/${type.version}`;
  const scope = type.scope === "Namespaced" && namespace !== undefined ? `/namespaces/${segment(type, namespace)}` : "";
  return `${root}${scope}/${type.plural}`;
}

/**
 * The path of an object or one of its subresources.
 *
 * **Errors**: `BadRequest` if the name, or the namespace of a namespaced kind, is missing.
 */
export function objectPath(type: ResourceType, key: ObjectKey, subresource?: string): string {
  const base = `${collectionPath(type, requiredNamespace(type, key.namespace, key.name))}/${segment(type, key.name)}`;
  return subresource === undefined ? base : `${base}/${subresource}`;
}

/** The namespace for the path of an object: none for cluster-scoped kinds. **Errors**: `BadRequest` if it is missing. */
export function requiredNamespace(type: ResourceType, namespace: string | undefined, name = ""): string | undefined {
  if (type.scope === "Cluster") return undefined;
  if (namespace === undefined || namespace === "") {
    throw statusError(
      "BadRequest",
      `${type.kind} ${JSON.stringify(name)}: metadata.namespace is required, ${type.plural} are namespaced`,
    );
  }
  return namespace;
}

function segment(type: ResourceType, value: string): string {
  // "." and ".." would be resolved away by URL parsers and address another resource.
  if (typeof value !== "string" || value === "" || value === "." || value === "..") {
    throw statusError("BadRequest", `${type.kind}: ${JSON.stringify(value)} is not a valid name`);
  }
  return encodeURIComponent(value);
}
