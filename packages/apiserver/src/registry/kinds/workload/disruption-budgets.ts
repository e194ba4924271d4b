import type { PodDisruptionBudgetObject } from "@keelson/api-machinery/kinds";
import { invalidCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { internalValue } from "../../builtin/internal-value.ts";
import * as check from "../../field-checks.ts";
import { setField } from "../../object-fields.ts";
import type { ReceivedObject } from "../../received.ts";
import { countAt, statusCauses } from "./workload.ts";
import type { Causes } from "../../causes.ts";

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
    *validate(object) {
      yield* budgetCauses(object);
      yield* countCauses(object);
    },
    status: { validate: countCauses },
  },
});

function* budgetCauses(object: ReceivedObject<PodDisruptionBudgetObject>): Causes {
  const spec = object.spec;
  const minAvailable = spec?.minAvailable;
  const maxUnavailable = spec?.maxUnavailable;

  if (minAvailable !== undefined && maxUnavailable !== undefined) {
    yield invalidCause(
      "spec",
      internalValue("policy.PodDisruptionBudgetSpec", spec),
      "minAvailable and maxUnavailable cannot be both set",
    );
  }
  for (const [field, value] of [
    ["spec.minAvailable", minAvailable],
    ["spec.maxUnavailable", maxUnavailable],
  ] as const) {
    yield* check.countOrPercent(field, value);
    const percent = check.percentOf(value);
    if (percent !== undefined && percent > 100) yield invalidCause(field, value, "must not be greater than 100%");
  }
  yield* check.labelSelector("spec.selector", spec?.selector);
  const policy = spec?.unhealthyPodEvictionPolicy;
  yield* check.oneOf("spec.unhealthyPodEvictionPolicy", policy, ["AlwaysAllow", "IfHealthyBudget"]);
}

function* countCauses(object: ReceivedObject<PodDisruptionBudgetObject>): Causes {
  yield* statusCauses(object, ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"], []);
}
