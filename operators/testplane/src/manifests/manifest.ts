import { type DeepReadonly, draft, isJsonObject, setOwn } from "@keelson/api-machinery";
import { injectPrefix } from "../api/names.ts";

type Manifest = DeepReadonly<Record<string, unknown>>;

/** The objects of a manifest: itself, or the items of a List. Throws a TypeError if an item is not an object. */
export function expandManifest(manifest: Manifest): readonly Manifest[] {
  const items = manifest["items"];
  if (items === undefined) return [manifest];
  if (!Array.isArray(items)) throw new TypeError("items: must be a list");
  return items.map((item: unknown, index) => {
    if (!isJsonObject(item)) throw new TypeError(`items[${index}]: must be an object`);
    return item;
  });
}

/** Suffix of the annotation that carries a value: `TARGET_HOST` and `targetHost` become `target-host`. */
export function annotationNameOf(name: string): string {
  return name
    .replaceAll("_", "-")
    .replaceAll(/([a-z])([A-Z])/g, "$1-$2")
    .toLowerCase();
}

/** Path of the Pod metadata in a manifest. */
function podMetadataPath(kind: unknown, manifest: Manifest): readonly string[] | undefined {
  if (kind === "Pod") return ["metadata"];
  if (kind === "CronJob") return ["spec", "jobTemplate", "spec", "template", "metadata"];
  const spec = manifest["spec"];
  return isJsonObject(spec) && isJsonObject(spec["template"]) ? ["spec", "template", "metadata"] : undefined;
}

/** Copies a manifest and adds the values as annotations of its Pods. */
export function injectValues(manifest: Manifest, values: Readonly<Record<string, string>>): Record<string, unknown> {
  const copy = draft(manifest) as Record<string, unknown>;
  const path = podMetadataPath(copy["kind"], copy);
  if (path === undefined || Object.keys(values).length === 0) return copy;
  let metadata = copy;
  for (const name of [...path, "annotations"]) {
    const next = metadata[name];
    if (isJsonObject(next)) metadata = next;
    else {
      const created: Record<string, unknown> = {};
      metadata[name] = created;
      metadata = created;
    }
  }
  for (const [name, value] of Object.entries(values)) setOwn(metadata, `${injectPrefix}${annotationNameOf(name)}`, value);
  return copy;
}
