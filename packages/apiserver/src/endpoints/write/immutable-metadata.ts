import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";

/** Only a delete begins deletion. */
export function deletionCauses(next: KubernetesObject, live: DeepReadonly<KubernetesObject>): StatusCause[] {
  const { deletionTimestamp, deletionGracePeriodSeconds } = live.metadata;
  const isSet = (value: unknown): boolean => value !== undefined && value !== null;
  const { deletionTimestamp: time, deletionGracePeriodSeconds: grace } = next.metadata;
  return [
    ...(isSet(time) && deletionTimestamp === undefined ? [invalidCause("metadata.deletionTimestamp", time, immutable)] : []),
    ...(isSet(grace) && grace !== deletionGracePeriodSeconds
      ? [invalidCause("metadata.deletionGracePeriodSeconds", grace, immutable)]
      : []),
  ];
}

const immutable = "field is immutable";

/** Reports changes of metadata that an update cannot make. */
export function immutableCauses(next: KubernetesObject, live: DeepReadonly<KubernetesObject>): StatusCause[] {
  const causes: StatusCause[] = [];
  for (const name of ["name", "namespace", "uid"] as const) {
    if ((next.metadata[name] ?? "") === (live.metadata[name] ?? "")) continue;
    causes.push({
      reason: "FieldValueInvalid",
      field: `metadata.${name}`,
      message: `Invalid value: ${JSON.stringify(next.metadata[name])}: field is immutable`,
    });
  }
  if (live.metadata.deletionTimestamp !== undefined) {
    const old = new Set(live.metadata.finalizers);
    const added = (next.metadata.finalizers ?? []).filter((finalizer) => !old.has(finalizer));
    if (added.length > 0) {
      const shown = added.map((finalizer) => JSON.stringify(finalizer)).join(", ");
      causes.push({
        reason: "FieldValueForbidden",
        field: "metadata.finalizers",
        message:
          "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers " +
          `[]string{${shown}}`,
      });
    }
  }
  return causes;
}
