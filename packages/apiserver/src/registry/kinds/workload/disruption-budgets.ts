import type { PodDisruptionBudgetObject } from "@keelson/api-machinery/kinds";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { mapAt, setField } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";
import { countAt, statusCauses } from "./workload.ts";

/** policy/v1 PodDisruptionBudgets. */
export const podDisruptionBudgets = builtinResource<PodDisruptionBudgetObject>({
  group: "policy",
  version: "v1",
  kind: "PodDisruptionBudget",
  plural: "poddisruptionbudgets",
  shortNames: ["pdb"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Min Available", "The minimum number of available Pods."),
    column("Max Unavailable", "The maximum number of unavailable Pods."),
    column("Allowed Disruptions", "How many Pods may be disrupted now.", { type: "integer" }),
    ageColumn,
  ],
  cells: (object, now) => [
    String(object.spec?.minAvailable ?? "N/A"),
    String(object.spec?.maxUnavailable ?? "N/A"),
    countAt(object, "status", "disruptionsAllowed"),
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    prepareForCreate: (object) =>
      setField(object, "status", { currentHealthy: 0, desiredHealthy: 0, disruptionsAllowed: 0, expectedPods: 0 }),
    validate: (object) => [...budgetCauses(object), ...countCauses(object)],
    status: { validate: countCauses },
  },
});

function budgetCauses(object: ReceivedObject<PodDisruptionBudgetObject>): StatusCause[] {
  const spec = object.spec;
  const minAvailable = spec?.minAvailable;
  const maxUnavailable = spec?.maxUnavailable;
  const causes: StatusCause[] = [];
  if (minAvailable !== undefined && maxUnavailable !== undefined) {
    causes.push(invalidCause("spec", mapAt(spec), "minAvailable and maxUnavailable cannot be both set"));
  }
  for (const [field, value] of [
    ["spec.minAvailable", minAvailable],
    ["spec.maxUnavailable", maxUnavailable],
  ] as const) {
    causes.push(...check.countOrPercent(field, value));
    const percent = check.percentOf(value);
    if (percent !== undefined && percent > 100) causes.push(invalidCause(field, value, "must not be greater than 100%"));
  }
  causes.push(...check.labelSelector("spec.selector", spec?.selector));
  const policy = spec?.unhealthyPodEvictionPolicy;
  causes.push(...check.oneOf("spec.unhealthyPodEvictionPolicy", policy, ["AlwaysAllow", "IfHealthyBudget"]));
  return causes;
}

function countCauses(object: ReceivedObject<PodDisruptionBudgetObject>): StatusCause[] {
  return statusCauses(object, ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"], []);
}
