import { isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { builtinResource } from "../../builtin/builtin-resource.ts";
import { asCrd, cleanupFinalizer, storedVersions, withCondition } from "../../crd/crd-spec.ts";
import { formatWarnings } from "../../crd/format-warnings.ts";
import { crdCauses, crdSpecCauses, crdUpdateCauses } from "../../crd/crd-validation.ts";
import { ensureMap, listAt, mapAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { defaultClientConfig } from "../../webhook-client-validation.ts";

/** apiextensions.k8s.io CustomResourceDefinitions. `now` is in milliseconds since the epoch. */
export function crdKinds(now: () => number): readonly ServedResource[] {
  return [
    builtinResource({
      group: "apiextensions.k8s.io",
      version: "v1",
      kind: "CustomResourceDefinition",
      plural: "customresourcedefinitions",
      shortNames: ["crd", "crds"],
      categories: ["api-extensions"],
      scope: "Cluster",
      hasStatus: true,
      strategy: {
        default: setDefaults,
        prepareForCreate: (object) => {
          setField(object, "status", {
            conditions: null,
            acceptedNames: { plural: "", kind: "" },
            storedVersions: storedVersions(object, undefined),
          });
        },
        prepareForUpdate: (object, old) => {
          setField(object, "status", structuredClone({ ...mapAt(old, "status"), storedVersions: storedVersions(object, old) }));
        },
        prepareForDelete: (object) => {
          const { metadata } = object;
          if (!metadata.finalizers?.includes(cleanupFinalizer)) {
            metadata.finalizers = [...(metadata.finalizers ?? []), cleanupFinalizer];
          }
          const status = ensureMap(object, "status");
          setField(
            status,
            "conditions",
            withCondition(
              asCrd(object).status?.conditions ?? [],
              {
                type: "Terminating",
                status: "True",
                reason: "InstanceDeletionPending",
                message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
              },
              formatTime(now()),
            ),
          );
        },
        validate: crdSpecCauses,
        status: { validate: crdCauses },
        validateUpdate: crdUpdateCauses,
        warnings: formatWarnings,
      },
    }),
  ];
}

/** Sets the defaults of a CRD in place. */
function setDefaults(object: KubernetesObject): void {
  const spec = ensureMap(object, "spec");
  const names = ensureMap(spec, "names");
  const kind = textAt(names, "kind");
  if (kind !== "") {
    if (textAt(names, "singular") === "") names["singular"] = kind.toLowerCase();
    if (textAt(names, "listKind") === "") names["listKind"] = `${kind}List`;
  }
  if (valueAt(spec, "conversion") === undefined) setField(spec, "conversion", { strategy: "None" });
  const conversion = ensureMap(spec, "conversion");
  defaultClientConfig(valueAt(conversion, "webhook", "clientConfig"));
  if (valueAt(spec, "preserveUnknownFields") === false) setField(spec, "preserveUnknownFields", undefined);
  for (const version of listAt(spec, "versions")) {
    if (typeof version !== "object" || version === null) continue;
    for (const flag of ["served", "storage"]) if (valueAt(version, flag) === undefined) setField(version, flag, false);
    dropNullDefaults(valueAt(version, "schema", "openAPIV3Schema"));
  }
}

/** Drops null defaults and examples in place, as kube-apiserver does. */
function dropNullDefaults(schema: unknown, depth = 0): void {
  if (!isJsonObject(schema) || depth > maxSchemaDepth) return;
  for (const name of ["default", "example"]) if (schema[name] === null) delete schema[name];
  const below = [
    ...Object.values(mapAt(schema, "properties")),
    ...["allOf", "anyOf", "oneOf"].flatMap((name) => listAt(schema, name)),
    ...["additionalProperties", "items", "not"].map((name) => schema[name]),
  ];
  for (const child of below) dropNullDefaults(child, depth + 1);
}

const maxSchemaDepth = 256;
