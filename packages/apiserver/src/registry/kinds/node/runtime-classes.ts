import type { RuntimeClassObject } from "@keelson/api-machinery/kinds";
import { invalidCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import type { ServedResource } from "../../served-resource.ts";

/** node.k8s.io RuntimeClasses: the ways in which nodes run Pods. */
export function runtimeClassKinds(): readonly ServedResource[] {
  return [
    builtinResource<RuntimeClassObject>({
      group: "node.k8s.io",
      version: "v1",
      kind: "RuntimeClass",
      plural: "runtimeclasses",
      scope: "Cluster",
      columns: [column("Handler", "The container runtime handler on the node."), ageColumn],
      cells: (object, now) => [object.handler ?? "", age(object.metadata.creationTimestamp, now)],
      strategy: {
        hasGeneration: false,
        validate: (object) => {
          const handler = object.handler ?? "";
          if (/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(handler)) return [];
          return [invalidCause("handler", handler, "must be a DNS label: lower case letters, digits and -, at most 63")];
        },
        validateUpdate: (object, old) =>
          object.handler === old.handler ? [] : [invalidCause("handler", object.handler, "field is immutable")],
      },
    }),
  ];
}
