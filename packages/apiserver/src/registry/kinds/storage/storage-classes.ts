import { jsonEquals } from "@keelson/api-machinery";
import type { StorageClassObject } from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause, requiredCause } from "@keelson/api-machinery/validation";
import { type Store, storageKey } from "../../../storage/store.ts";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { setField, valueAt } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";

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
    String(object.allowVolumeExpansion === true),
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    hasGeneration: false,
    default: (object) => {
      if (object.reclaimPolicy === undefined) setField(object, "reclaimPolicy", "Delete");
      if (object.volumeBindingMode === undefined) setField(object, "volumeBindingMode", "Immediate");
    },
    validate: (object) => [
      ...(object.provisioner === "" ? [requiredCause("provisioner")] : []),
      ...check.oneOf("reclaimPolicy", object.reclaimPolicy, ["Delete", "Retain"]),
      ...check.oneOf("volumeBindingMode", object.volumeBindingMode, ["Immediate", "WaitForFirstConsumer"]),
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
