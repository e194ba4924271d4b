import type { KubernetesObject } from "@keelson/api-machinery";
import { parseTime } from "@keelson/api-machinery/time";
import type { Cache, Read } from "@keelson/controller";
import type { MetricFamily, MetricSample } from "@keelson/controller/metrics";

/** A gauge over the operator's objects, read from its caches on each scrape. */
export interface StateMetric {
  readonly help: string;
  /** `now` is the time of the scrape in ms since the epoch. */
  readonly read: (cache: Cache, now: number) => readonly MetricSample[];
}

/** A line of a panel. */
export interface PanelQuery {
  /** Expression in PromQL. */
  readonly expr: string;
  /** Legend with labels in braces: `{{namespace}}`. */
  readonly legend: string;
}

/** A graph of a dashboard. */
export interface DashboardPanel {
  readonly title: string;
  /** Unit in Grafana's names. Default: `short`. */
  readonly unit?: "short" | "s" | "bytes" | "ops" | "percentunit";
  readonly queries: readonly PanelQuery[];
}

/** A variable that users choose at the top of a dashboard. Panels refer to it as `$name`. */
export interface DashboardVariable {
  readonly name: string;
  /** Query of its values: `label_values(up, namespace)`. */
  readonly query: string;
}

/** An alert rule of Prometheus. */
export interface AlertRule {
  readonly alert: string;
  /** Expression in PromQL. */
  readonly expr: string;
  /** How long the expression must hold. Default: one evaluation. */
  readonly for?: string;
  readonly severity: "critical" | "warning";
  /** One line, with labels as `{{ $labels.namespace }}`. */
  readonly summary: string;
  /** What to do. */
  readonly description?: string;
}

/** What an operator's dashboard, alert rules and `/metrics` have in addition to those of every operator. */
export interface OperatorMonitoring {
  /** Gauges by name. Only the leader exports them, so that no object is counted twice. */
  readonly metrics?: Readonly<Record<string, StateMetric>>;
  /** Kinds that the gauges read. */
  readonly reads?: readonly Read<KubernetesObject>[];
  /** Variables of the panels. */
  readonly variables?: readonly DashboardVariable[];
  readonly panels?: readonly DashboardPanel[];
  readonly alerts?: readonly AlertRule[];
}

/** The values of an operator's gauges. */
export function stateMetrics(
  metrics: NonNullable<OperatorMonitoring["metrics"]>,
  cache: Cache,
  now: number,
): readonly MetricFamily[] {
  return Object.entries(metrics).map(([name, { help, read }]) => ({ name, help, type: "gauge", samples: read(cache, now) }));
}

/** Labels of a sample. An undefined value is exported as an empty one. */
type Labels = Readonly<Record<string, string | undefined>>;

/** Seconds from `time`, in RFC 3339, until `now`, in ms since the epoch. Undefined without a valid time; never negative. */
export function ageSeconds(time: string | undefined, now: number): number | undefined {
  const ms = time === undefined ? undefined : parseTime(time);
  return ms === undefined ? undefined : Math.max(0, (now - ms) / 1000);
}

/** `time`, in RFC 3339, in seconds since the epoch. Undefined without a valid time. */
export function epochSeconds(time: string | undefined): number | undefined {
  const ms = time === undefined ? undefined : parseTime(time);
  return ms === undefined ? undefined : ms / 1000;
}

/** Counts objects by labels. Each combination of labels that occurs is a sample. */
export function countBy<T>(objects: Iterable<T>, labelsOf: (object: T) => Labels): readonly MetricSample[] {
  return aggregate(
    objects,
    labelsOf,
    () => 1,
    (sum, one) => sum + one,
  );
}

/** Like {@link countBy}, with the maximum of `valueOf`. Objects without a value are left out. */
export function maxBy<T>(
  objects: Iterable<T>,
  labelsOf: (object: T) => Labels,
  valueOf: (object: T) => number | undefined,
): readonly MetricSample[] {
  return aggregate(objects, labelsOf, valueOf, Math.max);
}

function aggregate<T>(
  objects: Iterable<T>,
  labelsOf: (object: T) => Labels,
  valueOf: (object: T) => number | undefined,
  combine: (left: number, right: number) => number,
): readonly MetricSample[] {
  const samples = new Map<string, { readonly labels: Readonly<Record<string, string>>; value: number }>();
  for (const object of objects) {
    const value = valueOf(object);
    if (value === undefined) continue;
    const labels = Object.fromEntries(Object.entries(labelsOf(object)).map(([name, label]) => [name, label ?? ""]));
    const key = JSON.stringify(labels);
    const sample = samples.get(key);
    if (sample === undefined) samples.set(key, { labels, value });
    else sample.value = combine(sample.value, value);
  }
  return [...samples.values()];
}
