import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { listAt, textAt, valueAt } from "../../object-fields.ts";

/** Metrics shown in a cell. */
const maxShown = 2;

/** The cell `Targets` of an autoscaling/v2 HorizontalPodAutoscaler: `cpu: 44%/60%`. */
export function metricTargets(object: DeepReadonly<KubernetesObject>): string {
  const metrics = listAt(object, "spec", "metrics");
  if (metrics.length === 0) return "<none>";
  const statuses = listAt(object, "status", "currentMetrics");
  const shown = metrics.slice(0, maxShown).map((metric, index) => targetText(metric, statuses[index]));
  const more = metrics.length > maxShown ? ` + ${metrics.length - maxShown} more...` : "";
  return `${shown.join(", ")}${more}`;
}

function targetText(metric: unknown, status: unknown): string {
  const type = textAt(metric, "type");
  const field = `${type.slice(0, 1).toLowerCase()}${type.slice(1)}`;
  const target = valueAt(metric, field, "target");
  const current = valueAt(status, field, "current");
  const average = amountOf(valueAt(target, "averageValue"));
  const currentAverage = amountOf(valueAt(current, "averageValue")) ?? unknown;
  switch (type) {
    case "Resource":
    case "ContainerResource": {
      const name = textAt(metric, field, "name");
      if (average !== undefined) return `${name}: ${currentAverage}/${average}`;
      return `${name}: ${percent(valueAt(current, "averageUtilization"), unknown)}/${percent(valueAt(target, "averageUtilization"), "<auto>")}`;
    }
    case "Pods":
      return `${currentAverage}/${average ?? unknown}`;
    case "Object":
    case "External":
      if (average !== undefined) return `${currentAverage}/${average} (avg)`;
      return `${amountOf(valueAt(current, "value")) ?? unknown}/${amountOf(valueAt(target, "value")) ?? unknown}`;
    default:
      return "<unknown type>";
  }
}

const unknown = "<unknown>";

/** A quantity as text. */
function amountOf(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}

function percent(value: unknown, absent: string): string {
  return typeof value === "number" ? `${value}%` : absent;
}
