import type { PersistentVolumeObject } from "@keelson/api-machinery/kinds";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import {
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { mapAt, textAt, valueAt } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";
import { nodeSelectorCauses } from "../pod/validation/affinity-validation.ts";
import { accessModes } from "./claim-validation.ts";
import { chooseSource, shownSourceField, volumeSourceCauses } from "./volume-source-validation.ts";
import type { Causes } from "../../causes.ts";

type Volume = ReceivedObject<PersistentVolumeObject>;

/** Fields of a volume's spec other than its source. */
export const notSource = [
  "accessModes",
  "capacity",
  "claimRef",
  "mountOptions",
  "nodeAffinity",
  "persistentVolumeReclaimPolicy",
  "storageClassName",
  "volumeAttributesClassName",
  "volumeMode",
];

const driverSecrets = [
  "controllerPublishSecretRef",
  "controllerExpandSecretRef",
  "nodePublishSecretRef",
  "nodeExpandSecretRef",
];

function* driverCauses(source: unknown, path: string): Causes {
  yield* check.driverName(`${path}.driver`, textAt(source, "driver"));
  yield* check.nonEmpty(`${path}.volumeHandle`, textAt(source, "volumeHandle"));
  for (const field of driverSecrets) {
    yield;
    const secret = valueAt(source, field);
    if (secret === undefined) continue;
    const name = textAt(secret, "name");
    yield* check.nonEmpty(`${path}.${field}.name`, name);
    yield* check.dnsSubdomain(`${path}.${field}.name`, name);
    yield* check.dnsLabel(`${path}.${field}.namespace`, textAt(secret, "namespace"));
  }
}

/** Validates a v1 PersistentVolume. */
export function* volumeCauses(volume: Volume): Causes {
  const spec = volume.spec;
  const modes = spec?.accessModes ?? [];
  yield* modes.length === 0 ? [requiredCause("spec.accessModes")] : [];
  for (const mode of modes) {
    yield;
    yield* check.oneOf("spec.accessModes", mode, accessModes);
  }
  const size = spec?.capacity?.storage;
  const resources = Object.keys(spec?.capacity ?? {}).sort();
  if (resources.length === 0) yield requiredCause("spec.capacity");
  if (resources.length !== 1 || resources[0] !== "storage") {
    yield notSupportedCause("spec.capacity", resources.length === 0 ? null : spec?.capacity, ["storage"]);
  }
  if (isQuantity(size) && compareQuantities(size, 0) <= 0)
    yield invalidCause("spec.capacity[storage]", size, "must be greater than zero");
  if (modes.includes("ReadWriteOncePod") && modes.length > 1) {
    yield forbiddenCause("spec.accessModes", "may not use ReadWriteOncePod with other access modes");
  }
  const policies = ["Delete", "Recycle", "Retain"];
  yield* check.oneOf("spec.persistentVolumeReclaimPolicy", spec?.persistentVolumeReclaimPolicy, policies);
  yield* check.oneOf("spec.volumeMode", spec?.volumeMode, ["Block", "Filesystem"]);
  yield* check.dnsSubdomain("spec.storageClassName", spec?.storageClassName);
  const types = Object.keys(mapAt(spec)).filter((field) => !notSource.includes(field));
  const { source, surplus } = chooseSource(types, "spec", "PersistentVolume");
  if (source === undefined) yield requiredCause("spec", "must specify a volume type");
  if (source !== undefined) {
    yield* volumeSourceCauses(source, valueAt(spec, source), `spec.${shownSourceField(source)}`, "PersistentVolume");
  }
  if (source === "csi") yield* driverCauses(valueAt(spec, "csi"), "spec.csi");
  yield* surplus;
  if (spec?.nodeAffinity !== undefined && spec.nodeAffinity.required === undefined) {
    yield requiredCause("spec.nodeAffinity.required", "must specify required node constraints");
  }
  const wanted = spec?.nodeAffinity?.required;
  if (wanted !== undefined) yield* nodeSelectorCauses(wanted, "spec.nodeAffinity.required");
  else if (source === "local") yield requiredCause("spec.nodeAffinity", "Local volume requires node affinity");
  yield* attributesClassCauses(spec);
}

/** A volume with an attributes class has a CSI driver. */
function attributesClassCauses(spec: Volume["spec"]): StatusCause[] {
  const name = spec?.volumeAttributesClassName;
  if (name === undefined) return [];
  const field = "spec.volumeAttributesClassName";
  const causes = [...check.nonEmpty(field, name, "an empty string is disallowed"), ...check.dnsSubdomain(field, name)];
  const detail = "has to be specified when using volumeAttributesClassName";
  return spec?.csi === undefined ? [...causes, requiredCause("spec.csi", detail)] : causes;
}
