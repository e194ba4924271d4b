import { jsonEquals } from "@keelson/api-machinery";
import type { StorageClassObject } from "@keelson/api-machinery/kinds";
import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  labelKeyFaults,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { type Store, storageKey } from "../../../storage/store.ts";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { classWarnings } from "./storage-warnings.ts";
import * as check from "../../field-checks.ts";
import { setField, valueAt } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";
import type { Causes } from "../../causes.ts";

type Read = ReceivedObject<StorageClassObject>;

const isDefaultClass = "storageclass.kubernetes.io/is-default-class";

/** The name of the newest StorageClass marked as default. */
export function defaultStorageClass(store: Pick<Store, "list">): string | undefined {
  let newest: Read | undefined;
  for (const { object } of store.list(storageKey({ group: "storage.k8s.io", plural: "storageclasses" }, "", "")).items) {
    if (object.metadata.annotations?.[isDefaultClass] !== "true") continue;
    if ((newest?.metadata.creationTimestamp ?? "") <= (object.metadata.creationTimestamp ?? "")) newest = object;
  }
  return newest?.metadata.name;
}

/** storage.k8s.io/v1 StorageClasses. */
export const storageClasses = builtinResource<StorageClassObject>({
  group: "storage.k8s.io",
  version: "v1",
  kind: "StorageClass",
  plural: "storageclasses",
  shortNames: ["sc"],
  scope: "Cluster",
  columns: [
    column("Provisioner", "The provisioner of its volumes."),
    column("ReclaimPolicy", "What happens to a volume when its claim is deleted."),
    column("VolumeBindingMode", "When volumes are bound."),
    column("AllowVolumeExpansion", "Whether volumes can grow."),
    ageColumn,
  ],
  cells: (object, now) => [
    object.provisioner ?? "",
    object.reclaimPolicy || "Delete",
    object.volumeBindingMode || "<unset>",
    object.allowVolumeExpansion === true,
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    hasGeneration: false,
    warnings: classWarnings,
    default: (object) => {
      if (object.reclaimPolicy === undefined) setField(object, "reclaimPolicy", "Delete");
      if (object.volumeBindingMode === undefined) setField(object, "volumeBindingMode", "Immediate");
    },
    *validate(object) {
      yield* provisionerCauses("provisioner", object.provisioner ?? "");
      yield* "" in (object.parameters ?? {}) ? [invalidCause("parameters", "", "field can not be empty.")] : [];
      yield* object.reclaimPolicy === "" ? [] : check.oneOf("reclaimPolicy", object.reclaimPolicy, ["Delete", "Retain"]);
      yield* check.oneOf("volumeBindingMode", object.volumeBindingMode, ["Immediate", "WaitForFirstConsumer"]);
      yield* topologyCauses(object.allowedTopologies ?? []);
    },
    validateUpdate: (object, old) =>
      ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]
        .filter((field) => !jsonEquals(valueAt(object, field), valueAt(old, field)))
        .map((field) =>
          field === "parameters" || field === "provisioner"
            ? forbiddenCause(field, `updates to ${field} are forbidden.`)
            : invalidCause(field, valueAt(object, field), "field is immutable"),
        ),
  },
});

/** Validates the name of a provisioner or driver of a class. */
export function provisionerCauses(field: string, name: string): StatusCause[] {
  if (name === "") return [requiredCause(field)];
  const lower = name.toLowerCase();
  return qualifiedNameFaults(lower).map((fault) => invalidCause(field, lower, fault));
}

function* topologyCauses(terms: NonNullable<Read["allowedTopologies"]>): Causes {
  const seen = new Set<string>();
  for (const [index, term] of terms.entries()) {
    yield;
    const path = `allowedTopologies[${index}].matchLabelExpressions`;
    const values = new Map<string, readonly string[]>();
    for (const [at, expression] of (term.matchLabelExpressions ?? []).entries()) {
      yield;
      const key = expression.key ?? "";
      const allowed = expression.values ?? [];
      if (allowed.length === 0) yield requiredCause(`${path}[${at}].values`);
      const distinct = new Set<string>();
      for (const [number, value] of allowed.entries()) {
        yield;
        if (distinct.has(value)) yield duplicateCause(`${path}[${at}].values[${number}]`, value);
        distinct.add(value);
      }
      yield* labelKeyFaults(key).map((fault) => invalidCause(`${path}[${at}].key`, key, fault));
      if (values.has(key)) yield duplicateCause(`${path}[${at}].key`, key);
      values.set(key, [...distinct].sort());
    }
    const text = JSON.stringify([...values].sort());
    if (seen.has(text) || values.size === 0) yield duplicateCause(path, "");
    seen.add(text);
  }
}
