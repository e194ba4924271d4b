import type { Operator } from "@keelson/operator";
import { alertGroupOf, dashboardOf } from "@keelson/operator/monitoring";
import { all, isSet, merge } from "../template/template.ts";
import { type InstallObject, labelsOf, literal, namespaced, objectName } from "./install-object.ts";

/** The alert rules and the dashboard of an operator. */
export function monitoringObjects(operator: Operator): readonly InstallObject[] {
  const { name } = operator;
  const isScraped = all(isSet(`${name}.enabled`), isSet("metrics.enabled"));
  return [
    {
      condition: all(isScraped, isSet("metrics.rules.enabled")),
      template: {
        apiVersion: "monitoring.coreos.com/v1",
        kind: "PrometheusRule",
        metadata: namespaced(objectName(name), name, { labels: merge(labelsOf(name), "metrics.rules.labels") }),
        spec: { groups: [literal(alertGroupOf(operator))] },
      },
    },
    {
      condition: all(isScraped, isSet("metrics.dashboards.enabled")),
      template: {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: namespaced(`${objectName(name)}-dashboard`, name, {
          labels: merge(labelsOf(name), "metrics.dashboards.labels"),
        }),
        data: { [`keelson-${name}.json`]: JSON.stringify(dashboardOf(operator)) },
      },
    },
  ];
}
