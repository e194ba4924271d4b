import type { RuntimeClassObject } from "@keelson/api-machinery/kinds";
import { dns1123LabelFaults, invalidCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { nodeLabelWarning } from "../node-labels.ts";
import * as check from "../../field-checks.ts";
import { listAt, mapAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { resourceCauses } from "../pod/validation/resource-validation.ts";
import { tolerationCauses } from "../pod/validation/spec-validation.ts";
import { eachItem } from "../../causes.ts";

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
        warnings: (object) =>
          Object.keys(mapAt(object, "scheduling", "nodeSelector")).flatMap((key) => {
            const warning = nodeLabelWarning(key);
            return warning === undefined ? [] : [`scheduling.nodeSelector: ${warning}`];
          }),
        *validate(object) {
          const handler = object.handler ?? "";
          yield* dns1123LabelFaults(handler).map((fault) => invalidCause("handler", handler, fault));
          yield* check.labels("scheduling.nodeSelector", valueAt(object, "scheduling", "nodeSelector"));
          yield* eachItem(listAt(object, "scheduling", "tolerations"), (toleration, index) =>
            tolerationCauses(toleration, `scheduling.tolerations[${index}]`),
          );
          yield* resourceCauses({ limits: mapAt(object, "overhead", "podFixed") }, "overhead");
        },
        validateUpdate: (object, old) =>
          object.handler === old.handler ? [] : [invalidCause("handler", object.handler, "field is immutable")],
      },
    }),
  ];
}
