import { type DeepReadonly, isJsonObject, type JsonObject, type KubernetesObject, setOwn } from "@keelson/api-machinery";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { autoscalingV1Metric, autoscalingV1Status, metricOfV1, statusOfV1 } from "./version-1-metrics.ts";

type Read = DeepReadonly<KubernetesObject>;

/** Annotations in which autoscaling/v1 keeps what it has no fields for. */
const prefix = "autoscaling.alpha.kubernetes.io/";
const metricsAnnotation = `${prefix}metrics`;
const currentMetricsAnnotation = `${prefix}current-metrics`;
const conditionsAnnotation = `${prefix}conditions`;
const behaviorAnnotation = `${prefix}behavior`;
const ownAnnotations = [metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation];

/** Converts an autoscaling/v1 HorizontalPodAutoscaler to v2. Annotations that cannot be parsed are dropped, as in kube-apiserver. */
export function fromVersion1(object: Read): KubernetesObject {
  const { metadata } = object;
  const read = (name: string): unknown => parsed(metadata.annotations?.[name]);
  const { targetCPUUtilizationPercentage: percent, ...spec } = copyAt(object, "spec");
  const cpu = { type: "Utilization", averageUtilization: percent };
  const metrics = [
    ...asList(read(metricsAnnotation)).map(metricOfV1),
    ...(percent === undefined ? [] : [{ type: "Resource", resource: { name: "cpu", target: cpu } }]),
  ];
  const behavior = read(behaviorAnnotation);
  const { currentCPUUtilizationPercentage: usage, currentReplicas: replicas = 0, ...status } = copyAt(object, "status");
  const current = asList(read(currentMetricsAnnotation)).map(statusOfV1);
  const usedCpu = { type: "Resource", resource: { name: "cpu", current: { averageUtilization: usage } } };
  const conditions = asList(read(conditionsAnnotation));
  return {
    apiVersion: "autoscaling/v2",
    kind: object.kind,
    metadata: withAnnotations(metadata, []),
    ...(valueAt(object, "spec") === undefined
      ? {}
      : {
          spec: {
            ...spec,
            ...(metrics.length === 0 ? {} : { metrics }),
            ...(isJsonObject(behavior) ? { behavior: lowerCased(behavior) } : {}),
          },
        }),
    ...(valueAt(object, "status") === undefined
      ? {}
      : {
          status: {
            ...(replicas === 0 ? {} : { currentReplicas: replicas }),
            ...status,
            ...(current.length > 0 ? { currentMetrics: current } : usage === undefined ? {} : { currentMetrics: [usedCpu] }),
            ...(conditions.length === 0 ? {} : { conditions }),
          },
        }),
  };
}

/** Converts an autoscaling/v2 HorizontalPodAutoscaler to v1. */
export function toVersion1(object: Read): KubernetesObject {
  const { metrics: _, behavior, ...spec } = copyAt(object, "spec");
  const { currentMetrics: __, conditions, ...status } = copyAt(object, "status");
  const metrics = listAt(object, "spec", "metrics");
  const cpu = metrics.find(isCpuUtilization);
  const others = metrics.filter((metric) => !isCpuUtilization(metric));
  const current = listAt(object, "status", "currentMetrics");
  const percent = valueAt(cpu, "resource", "target", "averageUtilization");
  const usage = valueAt(current.find(isCpuStatus), "resource", "current", "averageUtilization");
  const annotations: [string, unknown][] = [];
  if (others.length > 0) annotations.push([metricsAnnotation, others.map(autoscalingV1Metric)]);
  if (current.length > 0) annotations.push([currentMetricsAnnotation, current.map(autoscalingV1Status)]);
  if (isJsonObject(behavior)) annotations.push([behaviorAnnotation, upperCased(behavior)]);
  if (Array.isArray(conditions) && conditions.length > 0) annotations.push([conditionsAnnotation, conditions]);
  return {
    apiVersion: "autoscaling/v1",
    kind: object.kind,
    metadata: withAnnotations(object.metadata, annotations),
    spec: { ...spec, ...(percent === undefined ? {} : { targetCPUUtilizationPercentage: percent }) },
    ...(valueAt(object, "status") === undefined
      ? {}
      : {
          status: {
            currentReplicas: 0,
            ...status,
            ...(usage === undefined ? {} : { currentCPUUtilizationPercentage: usage }),
          },
        }),
  } as KubernetesObject;
}

function isCpuUtilization(metric: unknown): boolean {
  return isCpuStatus(metric) && valueAt(metric, "resource", "target", "averageUtilization") !== undefined;
}

function isCpuStatus(status: unknown): boolean {
  return textAt(status, "type") === "Resource" && textAt(status, "resource", "name") === "cpu";
}

/** Replaces the annotations above. */
function withAnnotations(
  { annotations = {}, ...metadata }: Read["metadata"],
  added: readonly (readonly [string, unknown])[],
): KubernetesObject["metadata"] {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(annotations)) if (!ownAnnotations.includes(name)) setOwn(kept, name, value);
  for (const [name, value] of added) kept[name] = JSON.stringify(value);
  const hasAny = Object.keys(kept).length > 0;
  return structuredClone({ ...metadata, ...(hasAny ? { annotations: kept } : {}) }) as KubernetesObject["metadata"];
}

function copyAt(object: Read, field: string): JsonObject {
  const found = valueAt(object, field);
  return isJsonObject(found) ? structuredClone(found) : {};
}

function parsed(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** kube-apiserver writes `behavior` with the names of its Go fields: `ScaleUp`, `StabilizationWindowSeconds`. */
function upperCased(value: unknown): unknown {
  return renamed(value, (name) => name.slice(0, 1).toUpperCase() + name.slice(1));
}

function lowerCased(value: unknown): unknown {
  return renamed(value, (name) => name.slice(0, 1).toLowerCase() + name.slice(1));
}

function renamed(value: unknown, rename: (name: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => renamed(item, rename));
  if (!isJsonObject(value)) return value;
  const result: JsonObject = {};
  for (const [name, child] of Object.entries(value)) {
    if (child !== null) setOwn(result, rename(name), renamed(child, rename));
  }
  return result;
}
