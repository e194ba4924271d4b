import type { NamespaceObject } from "@keelson/api-machinery/kinds";
import { invalidCause, qualifiedNameFaults } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { ensureMap, keepField, setField } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";
import type { ServedResource } from "../../served-resource.ts";
import { type Causes, eachItem } from "../../causes.ts";

/** The finalizer of every Namespace, which the namespace controller removes when the namespace is empty. */
const namespaceFinalizer = "kubernetes";

/** The label with the Namespace's name, so that selectors can refer to it. */
const nameLabel = "kubernetes.io/metadata.name";

/**
 * Namespaces. A deleted Namespace is Terminating until its `spec.finalizers` are empty; only the `finalize` subresource changes
 * them.
 */
export function namespaceKinds(): readonly ServedResource[] {
  return [namespaces];
}

const namespaces = builtinResource<NamespaceObject>({
  group: "",
  version: "v1",
  kind: "Namespace",
  plural: "namespaces",
  shortNames: ["ns"],
  scope: "Cluster",
  verbs: ["create", "delete", "get", "list", "patch", "update", "watch"],
  hasStatus: true,
  columns: [column("Status", "Active, or Terminating while it is being deleted."), ageColumn],
  cells: (object, now) => [object.status?.phase ?? "", age(object.metadata.creationTimestamp, now)],
  selectableFields: {
    name: (object) => object.metadata.name ?? "",
    "status.phase": (object) => object.status?.phase ?? "",
  },
  subresources: [
    {
      name: "finalize",
      kind: "Namespace",
      verbs: ["update"],
      prepareForUpdate: (object, old) => {
        keepField(object, old, "status");
        setNameLabel(object);
      },
      validateUpdate: (object) => finalizerCauses(object, true),
    },
  ],
  strategy: {
    hasGeneration: false,
    default: setNameLabel,
    status: { prepareForUpdate: setNameLabel, validate: phaseCauses },
    prepareForCreate: (object) => {
      object.status = { phase: "Active" };
      const spec = (object.spec ??= {});
      const finalizers = spec.finalizers ?? [];
      spec.finalizers = finalizers.includes(namespaceFinalizer) ? finalizers : [...finalizers, namespaceFinalizer];
      setNameLabel(object);
    },
    prepareForUpdate: (object, old) => {
      setField(ensureMap(object, "spec"), "finalizers", structuredClone(old.spec?.finalizers));
      keepField(object, old, "status");
      setNameLabel(object);
    },
    prepareForDelete: (object) => {
      (object.status ??= {}).phase = "Terminating";
    },
    validateCreate: (object) => finalizerCauses(object, false),
    isHeld: (object) => (object.spec?.finalizers ?? []).length > 0,
  },
});

/** Finalizers in `spec` have a domain, except Kubernetes' own. */
function* finalizerCauses(object: ReceivedObject<NamespaceObject>, hasIndex: boolean): Causes {
  yield* eachItem(object.spec?.finalizers ?? [], (name, index) => {
    const field = hasIndex ? `spec.finalizers[${index}]` : "spec.finalizers";
    const faults = [...qualifiedNameFaults(name)];
    if (!name.includes("/") && !["foregroundDeletion", namespaceFinalizer, "orphan"].includes(name)) {
      faults.push("name is neither a standard finalizer name nor is it fully qualified");
    }
    return faults.map((fault) => invalidCause(field, name, fault));
  });
}

function setNameLabel(object: { metadata: { name?: string; labels?: Record<string, string> } }): void {
  const { name } = object.metadata;
  if (name !== undefined) object.metadata.labels = { ...object.metadata.labels, [nameLabel]: name };
}

/** Only a deletion changes the phase. */
function* phaseCauses({ metadata, status }: ReceivedObject<NamespaceObject>): Causes {
  const isDeleted = metadata.deletionTimestamp !== undefined;
  const expected = isDeleted ? "Terminating" : "Active";
  if (status?.phase === expected) return;
  const why = `may only be '${expected}' if \`deletionTimestamp\` is ${isDeleted ? "not empty" : "empty"}`;
  yield invalidCause("status.Phase", status?.phase ?? "", why);
}
