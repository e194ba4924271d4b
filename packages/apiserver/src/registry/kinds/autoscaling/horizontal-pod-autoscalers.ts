import { type DeepReadonly, isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { listAt, objectAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { countAt } from "../workload/workload.ts";
import { autoscalerCauses, autoscalerStatusCauses } from "./autoscaler-validation.ts";
import { fromVersion1, toVersion1 } from "./version-1.ts";
import { defaultBehavior } from "./scaling-rules.ts";
import { metricTargets } from "./metric-cells.ts";

type Read = DeepReadonly<KubernetesObject>;

/** HorizontalPodAutoscalers, stored as autoscaling/v2 and also served as v1, which has a field for CPU and annotations for the rest. */
export function autoscalingKinds(): readonly ServedResource[] {
  return [version2, version1];
}

const common = {
  group: "autoscaling",
  kind: "HorizontalPodAutoscaler",
  plural: "horizontalpodautoscalers",
  shortNames: ["hpa"],
  categories: ["all"],
  scope: "Namespaced",
  hasStatus: true,
  storageApiVersion: "autoscaling/v2",
  columns: [
    column("Reference", "The scaled object."),
    column("Targets", "Current and target metric values."),
    column("MinPods", "The minimum number of Pods."),
    column("MaxPods", "The maximum number of Pods."),
    column("Replicas", "The current number of Pods."),
    ageColumn,
  ],
} as const;

function cells(object: Read, now: number): readonly (string | number)[] {
  return [
    `${textAt(object, "spec", "scaleTargetRef", "kind")}/${textAt(object, "spec", "scaleTargetRef", "name")}`,
    metricTargets(object),
    String(valueAt(object, "spec", "minReplicas") ?? "<unset>"),
    countAt(object, "spec", "maxReplicas"),
    countAt(object, "status", "currentReplicas"),
    age(object.metadata.creationTimestamp, now),
  ];
}

const version2 = builtinResource({
  ...common,
  version: "v2",
  cells,
  conversion: { fromStorage: current, toStorage: (object) => structuredClone(object) as KubernetesObject },
  strategy: {
    hasGeneration: false,
    default: defaultAutoscaler,
    prepareForCreate: (object) => setField(object, "status", { desiredReplicas: 0, currentMetrics: null }),
    validate: autoscalerCauses,
    status: { validate: autoscalerStatusCauses },
  },
});

const version1 = builtinResource({
  ...common,
  version: "v1",
  cells: (object, now) => cells(fromVersion1(object), now),
  conversion: { fromStorage: (stored) => toVersion1(current(stored)), toStorage: fromVersion1 },
  strategy: {
    hasGeneration: false,
    default: (object) => {
      const spec = objectAt(object, "spec");
      if (spec === undefined) return;
      spec["minReplicas"] ??= 1;
      if (listAt(fromVersion1(object), "spec", "metrics").length === 0) spec["targetCPUUtilizationPercentage"] ??= 80;
    },
    prepareForCreate: (object) => setField(object, "status", { currentReplicas: 0, desiredReplicas: 0 }),
    validate: (object) => autoscalerCauses(fromVersion1(object)),
    status: { validate: autoscalerStatusCauses },
  },
});

/** A stored object as autoscaling/v2. Earlier versions of Keelson stored v1. */
function current(stored: Read): KubernetesObject {
  const object = stored.apiVersion === "autoscaling/v1" ? fromVersion1(stored) : (structuredClone(stored) as KubernetesObject);
  const status = objectAt(object, "status");
  // The Go type writes an absent list.
  if (status !== undefined && status["currentMetrics"] === undefined) status["currentMetrics"] = null;
  return object;
}

function defaultAutoscaler(object: KubernetesObject): void {
  const spec = objectAt(object, "spec");
  if (spec === undefined) return;
  spec["minReplicas"] ??= 1;
  if (listAt(spec, "metrics").length === 0) {
    const target = { type: "Utilization", averageUtilization: 80 };
    spec["metrics"] = [{ type: "Resource", resource: { name: "cpu", target } }];
  }
  const { behavior } = spec;
  if (isJsonObject(behavior)) defaultBehavior(behavior);
}
