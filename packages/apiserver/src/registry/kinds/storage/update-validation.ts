import { type DeepReadonly, draft, type JsonObject, jsonEquals } from "@keelson/api-machinery";
import type { PersistentVolumeClaimObject, PersistentVolumeObject } from "@keelson/api-machinery/kinds";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { internalValue } from "../../builtin/internal-value.ts";
import { mapAt, objectAt, setField } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";
import { valueDifference } from "../../unified-diff.ts";
import { notSource } from "./volume-validation.ts";

type Claim = DeepReadonly<ReceivedObject<PersistentVolumeClaimObject>>;
type Volume = DeepReadonly<ReceivedObject<PersistentVolumeObject>>;

/** Rejects changes of a claim other than its size, and its attributes class, once it is bound. */
export function claimUpdateCauses(claim: Claim, old: Claim): StatusCause[] {
  const isBound = old.status?.phase === "Bound";
  const causes: StatusCause[] = [];
  const [before, after] = comparedClaims(claim, old, isBound);
  if (!jsonEquals(after, before)) {
    const detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    const [was, is] = [before, after].map((spec) => internalValue("core.PersistentVolumeClaimSpec", spec));
    causes.push(forbiddenCause("spec", `${detail}\n${valueDifference(was, is)}`));
  }
  const size = old.spec?.resources?.requests?.storage;
  const now = claim.spec?.resources?.requests?.storage;
  if (isBound && isQuantity(size) && isQuantity(now) && compareQuantities(now, size) < 0) {
    const detail = "field can not be less than status.capacity";
    causes.push(forbiddenCause("spec.resources.requests.storage", detail));
  }
  return causes;
}

/** The old and the new spec. Fields that may change are equal in both: the volume name until it is set, and the size once bound. */
function comparedClaims(claim: Claim, old: Claim, isBound: boolean): readonly [before: JsonObject, after: JsonObject] {
  const before = draft(objectAt(old, "spec")) ?? {};
  const after = draft(objectAt(claim, "spec")) ?? {};
  if ((old.spec?.volumeName ?? "") === "") setField(before, "volumeName", after["volumeName"]);
  if (old.spec?.storageClassName === undefined) setField(after, "storageClassName", undefined);
  if (isBound) {
    setField(after, "volumeAttributesClassName", before["volumeAttributesClassName"]);
    const requests = objectAt(after, "resources", "requests");
    if (requests !== undefined) setField(requests, "storage", mapAt(before, "resources", "requests")["storage"]);
  }
  return [before, after];
}

/** Rejects changes of a volume's source, mode and affinity. */
export function volumeUpdateCauses(volume: Volume, old: Volume): StatusCause[] {
  const causes: StatusCause[] = [];
  const source = (object: Volume): JsonObject => {
    const spec = draft(objectAt(object, "spec")) ?? {};
    for (const field of notSource) delete spec[field];
    return spec;
  };
  const [before, after] = [source(old), source(volume)];
  if (!jsonEquals(after, before)) {
    const [was, is] = [before, after].map((value) => internalValue("core.PersistentVolumeSource", value));
    const detail = "spec.persistentvolumesource is immutable after creation";
    causes.push(forbiddenCause("spec.persistentvolumesource", `${detail}\n${valueDifference(was, is)}`));
  }
  const mode = volume.spec?.volumeMode ?? "";
  if (mode !== (old.spec?.volumeMode ?? "")) causes.push(invalidCause("volumeMode", mode, "field is immutable"));
  return [...causes, ...affinityUpdateCauses(volume, old)];
}

/** The affinity of a volume cannot change once it is set. */
function affinityUpdateCauses(volume: Volume, old: Volume): StatusCause[] {
  const before = old.spec?.nodeAffinity;
  const now = volume.spec?.nodeAffinity;
  if (before === undefined || jsonEquals(now, before)) return [];
  const shown = now === undefined ? null : internalValue("core.VolumeNodeAffinity", now);
  return [invalidCause("nodeAffinity", shown, "field is immutable, except for updating from beta label to GA")];
}
