import { jsonEquals } from "@keelson/api-machinery";
import { forbiddenCause, invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { listAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import type { Read } from "../workload/workload.ts";

/** storagemigration.k8s.io/v1beta1 StorageVersionMigrations: requests to rewrite the objects of a resource in its storage version. */
export function storageMigrationKinds(): readonly ServedResource[] {
  return [
    builtinResource({
      group: "storagemigration.k8s.io",
      version: "v1beta1",
      kind: "StorageVersionMigration",
      plural: "storageversionmigrations",
      scope: "Cluster",
      hasStatus: true,
      columns: [
        column("Name", "The name of the object.", { format: "name" }),
        column("Resource", "The resource whose objects are rewritten."),
        ageColumn,
      ],
      cells: (object, now) => [object.metadata.name ?? "", resourceCell(object), age(object.metadata.creationTimestamp, now)],
      strategy: {
        prepareForCreate: (object) => setField(object, "status", {}),
        validate: specCauses,
        *validateUpdate(object, old) {
          const [now, before] = [valueAt(object, "spec"), valueAt(old, "spec")];
          yield* jsonEquals(now, before) ? [] : [invalidCause("spec", now, "field is immutable")];
        },
        status: { validate: statusCauses },
      },
    }),
  ];
}

function resourceCell(object: unknown): string {
  const [group, resource] = [textAt(object, "spec", "resource", "group"), textAt(object, "spec", "resource", "resource")];
  return group === "" ? resource : `${resource}.${group}`;
}

function specCauses(object: Read): StatusCause[] {
  const resource = textAt(object, "spec", "resource", "resource");
  return resource === "" ? [requiredCause("spec.resource.resource", "resource is required")] : [];
}

function statusCauses(object: Read): StatusCause[] {
  const isTrue = (type: string): boolean =>
    listAt(object, "status", "conditions").some((each) => textAt(each, "type") === type && textAt(each, "status") === "True");
  if (!isTrue("Succeeded") || !isTrue("Failed")) return [];
  return [forbiddenCause("status.conditions", "both success and failed conditions cannot be true at the same time")];
}
