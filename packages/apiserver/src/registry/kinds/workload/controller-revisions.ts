import { jsonEquals } from "@keelson/api-machinery";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { textAt, valueAt } from "../../object-fields.ts";
import type { Read } from "./workload.ts";

/** apps/v1 ControllerRevisions: immutable past states of a StatefulSet or DaemonSet. */
export const controllerRevisions = builtinResource({
  group: "apps",
  version: "v1",
  kind: "ControllerRevision",
  plural: "controllerrevisions",
  scope: "Namespaced",
  columns: [column("Controller", "The owning controller."), column("Revision", "The revision number."), ageColumn],
  cells: (object, now) => [
    controllerOf(object),
    String(valueAt(object, "revision") ?? 0),
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    hasGeneration: false,
    validate: (object) => check.atLeast("revision", valueAt(object, "revision")),
    validateUpdate: updateCauses,
  },
});

function updateCauses(object: Read, old: Read): StatusCause[] {
  if (jsonEquals(valueAt(object, "data"), valueAt(old, "data"))) return [];
  return [invalidCause("data", valueAt(object, "data") ?? null, "field is immutable")];
}

/** `statefulset.apps/web` */
function controllerOf(object: Read): string {
  const owner = object.metadata.ownerReferences?.find(({ controller }) => controller === true);
  if (owner === undefined) return "<none>";
  const group = textAt(owner, "apiVersion").split("/").slice(0, -1).join("/");
  return `${owner.kind.toLowerCase()}${group === "" ? "" : `.${group}`}/${owner.name}`;
}
