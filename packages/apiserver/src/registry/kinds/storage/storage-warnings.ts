import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { formatQuantity, isQuantity } from "@keelson/api-machinery/quantity";
import { listAt, mapAt, textAt, valueAt } from "../../object-fields.ts";
import { nodeLabelWarning } from "../node-labels.ts";

type Read = DeepReadonly<KubernetesObject>;

const deprecatedAnnotations: readonly (readonly [key: string, warning: string])[] = [
  ["volume.beta.kubernetes.io/storage-class", 'deprecated since v1.8; use "storageClassName" attribute instead'],
  ["volume.beta.kubernetes.io/mount-options", 'deprecated since v1.31; use "mountOptions" attribute instead'],
];

/** Volume plugins that no longer work, in kube-apiserver's order. */
const deprecatedSources: readonly (readonly [source: string, name: string, warning: string])[] = [
  ["cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"],
  ["photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"],
  ["scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"],
  ["storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"],
  ["glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"],
  ["rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"],
];

/** Warnings about a PersistentVolume. */
export function volumeWarnings(volume: Read): readonly string[] {
  const spec = mapAt(volume, "spec");
  const warnings: string[] = [];
  for (const [key, warning] of deprecatedAnnotations) {
    if (volume.metadata.annotations?.[key] !== undefined) warnings.push(`metadata.annotations[${key}]: ${warning}`);
  }
  if (spec["persistentVolumeReclaimPolicy"] === "Recycle") {
    const advice = "Instead, the recommended approach is to use dynamic provisioning.";
    warnings.push(`spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. ${advice}`);
  }
  const terms = listAt(spec, "nodeAffinity", "required", "nodeSelectorTerms");
  for (const [index, term] of terms.entries()) {
    for (const [at, expression] of listAt(term, "matchExpressions").entries()) {
      const key = textAt(expression, "key");
      const warning = nodeLabelWarning(key);
      if (warning === undefined) continue;
      const field = `spec.nodeAffinity.required.nodeSelectorTerms[${index}].matchExpressions[${at}].key`;
      warnings.push(`${field}: ${key} is ${warning}`);
    }
  }
  for (const [source, name, warning] of deprecatedSources) {
    if (Object.hasOwn(spec, source)) warnings.push(`spec.${name}: ${warning}`);
  }
  return warnings;
}

/** Warnings about the spec of a PersistentVolumeClaim at `path`. */
export function claimWarnings(spec: unknown, path: string): readonly string[] {
  return ["requests", "limits"].flatMap((kind) => {
    const size = valueAt(spec, "resources", kind, "storage");
    const text = isQuantity(size) ? formatQuantity(size) : "";
    if (!text.endsWith("m")) return [];
    return [`${path}.resources.${kind}[storage]: fractional byte value ${JSON.stringify(text)} is invalid, must be an integer`];
  });
}

/** Warnings about a StorageClass. */
export function classWarnings(storageClass: Read): readonly string[] {
  return listAt(storageClass, "allowedTopologies").flatMap((topology, index) =>
    listAt(topology, "matchLabelExpressions").flatMap((expression, at) => {
      const warning = nodeLabelWarning(textAt(expression, "key"));
      const field = `allowedTopologies[${index}].matchLabelExpressions[${at}].key`;
      return warning === undefined ? [] : [`${field}: ${warning}`];
    }),
  );
}
