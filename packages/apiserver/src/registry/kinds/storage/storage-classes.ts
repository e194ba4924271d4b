import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { forbiddenCause, invalidCause, requiredCause } from "@keelson/api-machinery/validation";
import { type Store, storageKey } from "../../../storage/store.ts";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { setField, textAt, valueAt } from "../../object-fields.ts";

type Read = DeepReadonly<KubernetesObject>;

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
export const storageClasses = builtinResource({
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
    textAt(object, "provisioner"),
    textAt(object, "reclaimPolicy") || "Delete",
    textAt(object, "volumeBindingMode") || "<unset>",
    String(valueAt(object, "allowVolumeExpansion") === true),
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    hasGeneration: false,
    default: (object) => {
      if (valueAt(object, "reclaimPolicy") === undefined) setField(object, "reclaimPolicy", "Delete");
      if (valueAt(object, "volumeBindingMode") === undefined) setField(object, "volumeBindingMode", "Immediate");
    },
    validate: (object) => [
      ...(valueAt(object, "provisioner") === "" ? [requiredCause("provisioner")] : []),
      ...check.oneOf("reclaimPolicy", valueAt(object, "reclaimPolicy"), ["Delete", "Retain"]),
      ...check.oneOf("volumeBindingMode", valueAt(object, "volumeBindingMode"), ["Immediate", "WaitForFirstConsumer"]),
    ],
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
