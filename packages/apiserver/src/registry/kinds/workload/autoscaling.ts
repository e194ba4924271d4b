import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { invalidCause, pathSegmentFaults, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { objectAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { countAt } from "./workload.ts";

type Read = DeepReadonly<KubernetesObject>;

/** autoscaling/v1 HorizontalPodAutoscalers, by CPU only. */
export function autoscalingKinds(): readonly ServedResource[] {
  return [
    builtinResource({
      group: "autoscaling",
      version: "v1",
      kind: "HorizontalPodAutoscaler",
      plural: "horizontalpodautoscalers",
      shortNames: ["hpa"],
      categories: ["all"],
      scope: "Namespaced",
      hasStatus: true,
      columns: [
        column("Reference", "The scaled object."),
        column("Targets", "Current and target metric values."),
        column("MinPods", "The minimum number of Pods."),
        column("MaxPods", "The maximum number of Pods."),
        column("Replicas", "The current number of Pods."),
        ageColumn,
      ],
      cells: (object, now) => [
        `${textAt(object, "spec", "scaleTargetRef", "kind")}/${textAt(object, "spec", "scaleTargetRef", "name")}`,
        targetOf(object),
        String(valueAt(object, "spec", "minReplicas") ?? "<unset>"),
        countAt(object, "spec", "maxReplicas"),
        countAt(object, "status", "currentReplicas"),
        age(object.metadata.creationTimestamp, now),
      ],
      strategy: {
        hasGeneration: false,
        default: (object) => {
          const spec = objectAt(object, "spec");
          if (spec === undefined) return;
          spec["minReplicas"] ??= 1;
          spec["targetCPUUtilizationPercentage"] ??= 80;
        },
        prepareForCreate: (object) => setField(object, "status", { currentReplicas: 0, desiredReplicas: 0 }),
        validate: autoscalerCauses,
      },
    }),
  ];
}

function autoscalerCauses(object: Read): StatusCause[] {
  const spec = valueAt(object, "spec");
  const maxReplicas = valueAt(spec, "maxReplicas");
  const causes = [
    ...check.atLeast("spec.minReplicas", valueAt(spec, "minReplicas"), 1),
    ...check.atLeast("spec.maxReplicas", maxReplicas, 1),
    ...check.atLeast("spec.targetCPUUtilizationPercentage", valueAt(spec, "targetCPUUtilizationPercentage"), 1),
  ];
  if (typeof maxReplicas === "number" && maxReplicas > 0 && maxReplicas < countAt(spec, "minReplicas")) {
    causes.push(invalidCause("spec.maxReplicas", maxReplicas, "must be greater than or equal to `minReplicas`"));
  }
  for (const field of ["kind", "name"]) {
    const value = textAt(spec, "scaleTargetRef", field);
    if (valueAt(spec, "scaleTargetRef", field) === "") causes.push(requiredCause(`spec.scaleTargetRef.${field}`));
    causes.push(...pathSegmentFaults(value).map((fault) => invalidCause(`spec.scaleTargetRef.${field}`, value, fault)));
  }
  return causes;
}

function targetOf(object: Read): string {
  const current = valueAt(object, "status", "currentCPUUtilizationPercentage");
  const shown = typeof current === "number" ? `${current}%` : "<unknown>";
  return `cpu: ${shown}/${countAt(object, "spec", "targetCPUUtilizationPercentage")}%`;
}
