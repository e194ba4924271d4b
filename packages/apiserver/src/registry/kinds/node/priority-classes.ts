import type { PriorityClassObject } from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { setField, valueAt } from "../../object-fields.ts";
import { systemPriorities } from "../pod/priority.ts";
import { countAt } from "../workload/workload.ts";

/** The maximum priority of user-defined classes. */
const highestPriority = 1_000_000_000;

/** scheduling.k8s.io/v1 PriorityClasses. */
export const priorityClasses = builtinResource<PriorityClassObject>({
  group: "scheduling.k8s.io",
  version: "v1",
  kind: "PriorityClass",
  plural: "priorityclasses",
  shortNames: ["pc"],
  scope: "Cluster",
  columns: [
    column("Value", "The priority.", { type: "integer" }),
    column("Global-Default", "Whether Pods without a class get this one.", { type: "boolean" }),
    ageColumn,
    column("PreemptionPolicy", "Whether its Pods preempt others."),
  ],
  cells: (object, now) => [
    countAt(object, "value"),
    object.globalDefault === true,
    age(object.metadata.creationTimestamp, now),
    object.preemptionPolicy ?? "",
  ],
  strategy: {
    default: (object) => {
      if (object.value === undefined) setField(object, "value", 0);
      if (object.preemptionPolicy === undefined) setField(object, "preemptionPolicy", "PreemptLowerPriority");
    },
    *validate(object) {
      const { name = "" } = object.metadata;
      yield* check.oneOf("preemptionPolicy", object.preemptionPolicy, ["PreemptLowerPriority", "Never"]);
      const isSystem = Object.hasOwn(systemPriorities, name);
      if (name.startsWith("system-") && !isSystem) {
        yield forbiddenCause(
          "metadata.name",
          "priority class names with 'system-' prefix are reserved for system use only. " +
            `error: ${name} is not a known system priority class`,
        );
      }
      if (!isSystem && countAt(object, "value") > highestPriority) {
        const detail = `maximum allowed value of a user defined priority is ${highestPriority}`;
        yield forbiddenCause("value", detail);
      }
    },
    validateUpdate: (object, old) =>
      ["value", "preemptionPolicy"]
        .filter((field) => valueAt(object, field) !== valueAt(old, field))
        .map((field) =>
          field === "value"
            ? forbiddenCause("value", "may not be changed in an update.")
            : invalidCause(field, valueAt(object, field), "field is immutable"),
        ),
  },
});
