import { jsonEquals } from "@keelson/api-machinery";
import type { ControllerRevisionObject } from "@keelson/api-machinery/kinds";
import { invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import type { ReceivedObject } from "../../received.ts";

/** apps/v1 ControllerRevisions: immutable past states of a StatefulSet or DaemonSet. */
export const controllerRevisions = builtinResource<ControllerRevisionObject>({
  group: "apps",
  version: "v1",
  kind: "ControllerRevision",
  plural: "controllerrevisions",
  scope: "Namespaced",
  columns: [column("Controller", "The owning controller."), column("Revision", "The revision number."), ageColumn],
  cells: (object, now) => [controllerOf(object), object.revision ?? 0, age(object.metadata.creationTimestamp, now)],
  strategy: {
    hasGeneration: false,
    *validate(object) {
      yield* object.data === undefined || object.data === null ? [requiredCause("data", "data is mandatory")] : [];
      yield* check.atLeast("revision", object.revision);
    },
    validateUpdate: updateCauses,
  },
});

function updateCauses(
  object: ReceivedObject<ControllerRevisionObject>,
  old: ReceivedObject<ControllerRevisionObject>,
): StatusCause[] {
  if (jsonEquals(object.data, old.data)) return [];
  return [invalidCause("data", object.data ?? null, "field is immutable")];
}

/** `statefulset.apps/web` */
function controllerOf(object: ReceivedObject<ControllerRevisionObject>): string {
  const owner = object.metadata.ownerReferences?.find(({ controller }) => controller === true);
  if (owner === undefined) return "<none>";
  const group = (owner.apiVersion ?? "").split("/").slice(0, -1).join("/");
  return `${owner.kind.toLowerCase()}${group === "" ? "" : `.${group}`}/${owner.name}`;
}
