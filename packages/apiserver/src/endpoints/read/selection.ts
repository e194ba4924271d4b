import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { parseFieldSelector, parseLabelSelector } from "@keelson/api-machinery/selectors";
import type { ServedResource } from "../../registry/served-resource.ts";
import type { StoredObject } from "../../storage/store.ts";
import { badRequest } from "../errors.ts";

/** The objects that a list, watch or deletecollection selects. */
export interface Selection {
  /** False if it matches everything, so that objects need not be parsed. */
  readonly isSelective: boolean;
  /** Whether it reads fields outside the metadata, whose names depend on the version of the object. */
  readonly readsFields: boolean;
  /** Number of requirements, each of which an object may be compared to. The number of their values does not matter. */
  readonly requirements: number;
  matches(stored: Pick<StoredObject, "object">): boolean;
}

const everything: Selection = { isSelective: false, readsFields: false, requirements: 0, matches: () => true };

/** Maximum number of requirements and values in a selector: parsing one takes 5 µs. */
const maxTerms = 2_000;

/** Checks the number of terms before they are parsed. Throws `BadRequest`. */
function requireFewTerms(parameter: string, text: string): void {
  const terms = text.split(",").length;
  if (terms > maxTerms) throw badRequest(`${parameter}: must have at most ${maxTerms} requirements and values, got ${terms}`);
}

interface OwnFieldLabels {
  refusal(field: string, resource: Pick<ServedResource, "group" | "version" | "kind">): string;
  /** Whether `metadata.namespace` is known. Default true. */
  readonly hasNamespace?: boolean;
}

const plainRefusal: OwnFieldLabels["refusal"] = (field) => `field label not supported: ${field}`;

/** Kinds that convert field labels themselves in kube-apiserver, by group and kind. */
const ownFieldLabels: Readonly<Record<string, OwnFieldLabels>> = {
  "/Event": { refusal: plainRefusal },
  "/Namespace": { refusal: plainRefusal, hasNamespace: false },
  "/Node": { refusal: plainRefusal, hasNamespace: false },
  "/Pod": { refusal: plainRefusal },
  "/ReplicationController": { refusal: plainRefusal },
  "/Secret": { refusal: plainRefusal },
  "/Service": { refusal: plainRefusal },
  "batch/Job": { refusal: (field) => `field label ${JSON.stringify(field)} not supported for Job` },
  "certificates.k8s.io/CertificateSigningRequest": { refusal: plainRefusal, hasNamespace: false },
  "events.k8s.io/Event": { refusal: plainRefusal },
  "resource.k8s.io/ResourceSlice": {
    refusal: (field, { group, version, kind }) => `field label not supported for ${group}/${version}, Kind=${kind}: ${field}`,
    hasNamespace: false,
  },
};

/** Parses `labelSelector` and `fieldSelector`. Throws `BadRequest` for invalid syntax or an unknown field. */
export function selectionOf(
  resource: Pick<ServedResource, "group" | "version" | "kind" | "scope" | "selectableFields" | "conversion">,
  query: Readonly<Record<string, string | undefined>>,
): Selection {
  const labelText = query["labelSelector"] ?? "";
  const fieldText = query["fieldSelector"] ?? "";
  if (labelText === "" && fieldText === "") return everything;
  requireFewTerms("labelSelector", labelText);
  requireFewTerms("fieldSelector", fieldText);
  const labels = parseLabelSelector(labelText);
  const known = {
    ...resource.selectableFields,
    "metadata.name": (object: DeepReadonly<KubernetesObject>) => object.metadata.name ?? "",
    "metadata.namespace": (object: DeepReadonly<KubernetesObject>) => object.metadata.namespace ?? "",
  };
  const fields = parseFieldSelector(fieldText);
  for (const { field } of fields.requirements) {
    const own = ownFieldLabels[`${resource.group}/${resource.kind}`];
    const isKnown = field === "metadata.namespace" ? own?.hasNamespace !== false : Object.hasOwn(known, field);
    if (isKnown) continue;
    if (own !== undefined) throw badRequest(own.refusal(field, resource));
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
    requirements: fields.requirements.length + labels.requirements.length,
    matches({ object }) {
      if (!labels.matches(object.metadata.labels ?? {})) return false;
      const view = readsFields && resource.conversion !== undefined ? resource.conversion.fromStorage(object) : object;
      return fields.matches((field) => readField(view, field));
    },
  };
}
