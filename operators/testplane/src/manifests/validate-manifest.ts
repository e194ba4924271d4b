import type { DeepReadonly } from "@keelson/api-machinery";
import type { ResourceRef } from "../api/resource-ref.ts";
import { hasTemplate } from "../templating/template.ts";

/** Validates a reference to an object. Appends one line per error, each starting with the path of the field. */
export function validateResource(
  ref: DeepReadonly<ResourceRef> | undefined,
  path: string,
  namespace: string | undefined,
  errors: string[],
): void {
  if (ref === undefined) return;
  const { manifest, selector } = ref;
  if (manifest !== undefined && selector !== undefined) errors.push(`${path}: must have either manifest or selector, not both`);
  else if (manifest !== undefined) {
    if (Object.hasOwn(manifest, "items")) errors.push(`${path}.manifest: must be a single object, not a list`);
    else errors.push(...validateManifest(manifest, `${path}.manifest`, namespace));
  } else if (selector !== undefined) {
    const ways = [selector.name, selector.labelSelector, selector.annotationSelector].filter((way) => way !== undefined);
    if (ways.length !== 1) errors.push(`${path}.selector: must have exactly one of name, labelSelector and annotationSelector`);
    if (ref.action === "Delete") errors.push(`${path}.action: Delete requires a manifest`);
  } else errors.push(`${path}: must have a manifest or a selector`);
}

/** Validates a manifest. `namespace` is the only namespace that it may name; undefined means any. Returns one line per error. */
export function validateManifest(
  manifest: DeepReadonly<Record<string, unknown>>,
  path: string,
  namespace: string | undefined,
): readonly string[] {
  const errors: string[] = [];
  for (const field of ["apiVersion", "kind"] as const) {
    if (typeof manifest[field] !== "string" || manifest[field] === "") errors.push(`${path}.${field}: required`);
  }
  const metadata = manifest["metadata"];
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata))
    return [...errors, `${path}.metadata: required`];
  const { name, namespace: own, labels, annotations } = metadata as Readonly<Record<string, unknown>>;
  if (typeof name !== "string" || name === "")
    errors.push(`${path}.metadata.name: required (generateName would create another object in each round)`);
  if (own !== undefined && namespace !== undefined && own !== namespace && !hasTemplate(own)) {
    errors.push(
      `${path}.metadata.namespace: must be ${namespace}; a test without spec.serviceAccountName can only change objects in its own namespace`,
    );
  }
  for (const [field, map] of Object.entries({ labels, annotations })) {
    if (map === undefined || map === null) continue;
    if (typeof map !== "object" || Object.values(map).some((value) => typeof value !== "string")) {
      errors.push(`${path}.metadata.${field}: values must be strings`);
    }
  }
  return errors;
}
