import { textAt, valueAt } from "../../object-fields.ts";

/** Part of a metric; its values come from an object that is validated elsewhere. */
type Fields = Record<string, unknown>;

/** An autoscaling/v2 MetricSpec in v1's form, which names the parts of targets in one level: `targetAverageValue`. */
export function autoscalingV1Metric(metric: unknown): Fields {
  return flattened(metric, "target");
}

/** An autoscaling/v2 MetricStatus in v1's form. */
export function autoscalingV1Status(status: unknown): Fields {
  return flattened(status, "current");
}

/** A v1 MetricSpec in v2's form. */
export function metricOfV1(metric: unknown): Fields {
  return nested(metric, "target");
}

/** A v1 MetricStatus in v2's form. */
export function statusOfV1(status: unknown): Fields {
  return nested(status, "current");
}

function fieldOf(type: string): string {
  return `${type.slice(0, 1).toLowerCase()}${type.slice(1)}`;
}

function flattened(metric: unknown, part: "target" | "current"): Fields {
  const type = textAt(metric, "type");
  const field = fieldOf(type);
  const source = valueAt(metric, field);
  const value = (name: string): unknown => valueAt(source, part, name);
  const named = identifier(type, source);
  const average = optional(`${part}AverageValue`, value("averageValue"));
  switch (type) {
    case "Resource":
    case "ContainerResource":
      return { type, [field]: { ...named, ...optional(`${part}AverageUtilization`, value("averageUtilization")), ...average } };
    case "Object":
      return {
        type,
        [field]: {
          target: valueAt(source, "describedObject"),
          metricName: valueAt(source, "metric", "name"),
          [`${part}Value`]: value("value") ?? "0",
          ...optional("selector", valueAt(source, "metric", "selector")),
          ...optional("averageValue", value("averageValue")),
        },
      };
    case "External":
      return { type, [field]: { ...named, ...optional(`${part}Value`, value("value")), ...average } };
    default:
      return { type, [field]: { ...named, ...average } };
  }
}

/** How v1 identifies the metric of a source. */
function identifier(type: string, source: unknown): Fields {
  if (type === "Resource" || type === "ContainerResource") {
    return { name: valueAt(source, "name"), ...optional("container", valueAt(source, "container")) };
  }
  const selector = type === "External" ? "metricSelector" : "selector";
  return {
    metricName: valueAt(source, "metric", "name"),
    ...optional(selector, valueAt(source, "metric", "selector")),
  };
}

function nested(metric: unknown, part: "target" | "current"): Fields {
  const type = textAt(metric, "type");
  const field = fieldOf(type);
  const source = valueAt(metric, field);
  const value = (name: string): unknown => valueAt(source, name);
  const averageValue = value(type === "Object" ? "averageValue" : `${part}AverageValue`);
  const averageUtilization = value(`${part}AverageUtilization`);
  const total = value(`${part}Value`);
  const kind = averageUtilization !== undefined ? "Utilization" : averageValue !== undefined ? "AverageValue" : "Value";
  const amounts = {
    ...(part === "target" ? { type: kind } : {}),
    ...optional("value", total),
    ...optional("averageValue", averageValue),
    ...optional("averageUtilization", averageUtilization),
  };
  if (type === "Resource" || type === "ContainerResource") {
    const name = { name: value("name"), ...optional("container", value("container")) };
    return { type, [field]: { ...name, [part]: amounts } };
  }
  const metricId = { name: value("metricName"), ...optional("selector", value("selector") ?? value("metricSelector")) };
  const described = type === "Object" ? { describedObject: value("target") } : {};
  return { type, [field]: { ...described, metric: metricId, [part]: amounts } };
}

function optional(name: string, value: unknown): Fields {
  return value === undefined ? {} : { [name]: value };
}
