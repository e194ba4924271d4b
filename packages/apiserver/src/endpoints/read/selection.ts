import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { parseFieldSelector, parseLabelSelector } from "@keelson/api-machinery/selectors";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { StoredObject } from "../../storage/store.ts";
import { badRequest } from "../errors.ts";

/** The objects that a list, watch or deletecollection selects. */
export interface Selection {
  /** False if it matches everything, so that objects need not be parsed. */
  readonly isSelective: boolean;
  /** Whether it reads fields outside of the metadata, whose names depend on the version of the object. */
  readonly readsFields: boolean;
  matches(stored: Pick<StoredObject, "object">): boolean;
}

const everything: Selection = { isSelective: false, readsFields: false, matches: () => true };

/** Parses `labelSelector` and `fieldSelector`. Throws `BadRequest` for invalid syntax or an unknown field. */
export function selectionOf(
  resource: Pick<ServedResource, "scope" | "selectableFields" | "conversion">,
  query: Readonly<Record<string, string | undefined>>,
): Selection {
  const labelText = query["labelSelector"] ?? "";
  const fieldText = query["fieldSelector"] ?? "";
  if (labelText === "" && fieldText === "") return everything;
  const labels = parseLabelSelector(labelText);
  const known = {
    ...resource.selectableFields,
    "metadata.name": (object: DeepReadonly<KubernetesObject>) => object.metadata.name ?? "",
    "metadata.namespace": (object: DeepReadonly<KubernetesObject>) => object.metadata.namespace ?? "",
  };
  const fields = parseFieldSelector(fieldText);
  for (const { field } of fields.requirements) {
    if (Object.hasOwn(known, field)) continue;
    const names = ["metadata.name", "metadata.namespace", ...Object.keys(resource.selectableFields)];
    const list = [...new Set(names)].map((name) => JSON.stringify(name)).join(", ");
    throw badRequest(`${JSON.stringify(field)} is not a known field selector: only ${list}`);
  }
  const readField = (object: DeepReadonly<KubernetesObject>, field: string): string => {
    const read = Object.hasOwn(known, field) ? (known as ServedResource["selectableFields"])[field] : undefined;
    return read?.(object) ?? "";
  };
  const readsFields = fields.requirements.some(({ field }) => !field.startsWith("metadata."));
  return {
    isSelective: true,
    readsFields,
    matches({ object }) {
      if (!labels.matches(object.metadata.labels ?? {})) return false;
      const view = readsFields && resource.conversion !== undefined ? resource.conversion.fromStorage(object) : object;
      return fields.matches((field) => readField(view, field));
    },
  };
}
