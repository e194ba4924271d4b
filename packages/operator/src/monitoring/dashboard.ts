import type { Operator } from "../operator.ts";
import type { AlertRule, DashboardPanel, DashboardVariable } from "./operator-monitoring.ts";
import { runtimeAlerts, runtimePanels } from "./runtime-monitoring.ts";

type Monitored = Pick<Operator, "name" | "monitoring">;

/** A rule group in Prometheus' format. */
export interface AlertGroup {
  readonly name: string;
  readonly rules: readonly {
    readonly alert: string;
    readonly expr: string;
    readonly for?: string;
    readonly labels: { readonly severity: string };
    readonly annotations: { readonly summary: string; readonly description?: string };
  }[];
}

const titleOf = (name: string): string => name.slice(0, 1).toUpperCase() + name.slice(1);

/** The alert rules of an operator: its own, then those of every operator. */
export function alertGroupOf(operator: Monitored): AlertGroup {
  const alerts = [...(operator.monitoring?.alerts ?? []), ...runtimeAlerts(operator, titleOf(operator.name))];
  return { name: `keelson-${operator.name}`, rules: alerts.map(ruleOf) };
}

function ruleOf({ alert, expr, for: duration, severity, summary, description }: AlertRule): AlertGroup["rules"][number] {
  return {
    alert,
    expr,
    ...(duration === undefined ? {} : { for: duration }),
    labels: { severity },
    annotations: { summary, ...(description === undefined ? {} : { description }) },
  };
}

/** Grafana draws dashboards on a grid of 24 columns. */
const panelWidth = 12;
const panelHeight = 8;

const datasource = { type: "prometheus", uid: "${datasource}" };

/** The dashboard of an operator in Grafana's JSON: its own panels, then those of every operator. */
export function dashboardOf(operator: Monitored): object {
  const { panels: own = [], variables = [] } = operator.monitoring ?? {};
  const panels = [...own, ...runtimePanels(operator)];
  return {
    uid: `keelson-${operator.name}`,
    title: `Keelson ${operator.name}`,
    tags: ["keelson"],
    schemaVersion: 39,
    editable: true,
    refresh: "30s",
    time: { from: "now-6h", to: "now" },
    templating: { list: [{ name: "datasource", type: "datasource", query: "prometheus" }, ...variables.map(variableOf)] },
    panels: panels.map(panelOf),
  };
}

const variableOf = ({ name, query }: DashboardVariable): object => ({
  ...{ name, query, datasource },
  type: "query",
  includeAll: true,
  multi: true,
  // When the time range changes.
  refresh: 2,
});

function panelOf({ title, unit = "short", queries }: DashboardPanel, index: number): object {
  return {
    id: index + 1,
    title,
    type: "timeseries",
    datasource,
    gridPos: {
      h: panelHeight,
      w: panelWidth,
      x: (index % 2) * panelWidth,
      y: Math.floor(index / 2) * panelHeight,
    },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(({ expr, legend }, query) => ({
      refId: String.fromCodePoint(65 + query),
      datasource,
      expr,
      legendFormat: legend,
    })),
  };
}
