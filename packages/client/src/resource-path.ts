import { type ObjectKey, type ResourceType, statusError } from "@keelson/api-machinery";

/** The path of a kind's collection: of one namespace, or of all when `namespace` is absent. */
export function collectionPath(type: ResourceType, namespace?: string): string {
  const root = type.group === "" ? `/api/${type.version}` : `/apis/${type.group}/${type.version}`;
  const scope = type.scope === "Namespaced" && namespace !== undefined ? `/namespaces/${segment(type, namespace)}` : "";
  return `${root}${scope}/${type.plural}`;
}

/**
 * The path of one object or of a subresource of it.
 *
 * **Errors**: `BadRequest` when the name is empty, or the namespace of a namespaced kind is.
 */
export function objectPath(type: ResourceType, key: ObjectKey, subresource?: string): string {
  const base = `${collectionPath(type, requiredNamespace(type, key.namespace, key.name))}/${segment(type, key.name)}`;
  return subresource === undefined ? base : `${base}/${subresource}`;
}

/** The namespace to use for an object of `type`: none for cluster-scoped kinds, else it has to be there. */
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
    throw statusError("BadRequest", `${type.kind}: ${JSON.stringify(value)} is not a name`);
  }
  return encodeURIComponent(value);
}
