import type { MetricFamily, MetricSample } from "@keelson/controller/metrics";

/** Metrics of a program, as the agent of a Pod reports them. */
export interface ReportedMetrics {
  /** `namespace`, `app`, `component`, `group` and `pod`. */
  readonly pod: Readonly<Record<string, string>>;
  readonly families: readonly MetricFamily[];
}

/** Bounds of what one Pod exports, so that an agent cannot fill Prometheus. Redis has about 250 series. */
const maxSamples = 5_000;
const maxNameLength = 200;
const maxLabelLength = 256;

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const labelName = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;
/** Labels of the scrape target, which a program must not set. */
const targetLabels: ReadonlySet<string> = new Set(["job", "instance"]);
/** Metrics of the operator. */
const ownNames = /^(?:keelson|controller_runtime|workqueue|rest_client|leader_election|process|nodejs)_/;

/**
 * Metrics of programs with the labels of their Pods. A label of the program with the name of one of these, or of a scrape target, gets the prefix `exported_`, as
 * in Prometheus. Malformed metrics, metrics with names of the operator's own, and more than 5000 samples of a Pod are left out. Pure.
 */
export function programMetrics(reports: readonly ReportedMetrics[]): readonly MetricFamily[] {
  const merged = new Map<string, { readonly family: MetricFamily; readonly samples: MetricSample[] }>();
  for (const { pod, families } of reports) {
    let left = maxSamples;
    const names = new Set<string>();
    for (const family of families) {
      const { name } = family;
      if (name.length > maxNameLength || !metricName.test(name) || ownNames.test(name) || names.has(name)) continue;
      names.add(name);
      const entry = merged.get(name) ?? { family, samples: [] };
      // The first type applies to all: an App must not be able to hide the metrics of others.
      merged.set(name, entry);
      const samples = samplesOf(family, pod).slice(0, left);
      left -= samples.length;
      entry.samples.push(...samples);
    }
  }
  return [...merged.values()].map(({ family, samples }) => ({ ...family, help: family.help.slice(0, 1_000), samples }));
}

function samplesOf({ samples }: MetricFamily, pod: Readonly<Record<string, string>>): readonly MetricSample[] {
  const isReserved = (name: string): boolean => Object.hasOwn(pod, name) || targetLabels.has(name);
  const series = new Set<string>();
  return samples.slice(0, maxSamples).flatMap(({ labels, value }) => {
    const own = Object.entries(labels).map(([name, text]) => [isReserved(name) ? `exported_${name}` : name, text] as const);
    if (own.some(([name, text]) => !labelName.test(name) || text.length > maxLabelLength)) return [];
    // Prometheus rejects a whole scrape with a duplicate series.
    const key = JSON.stringify([...own].sort());
    if (series.has(key)) return [];
    series.add(key);
    return [{ labels: { ...pod, ...Object.fromEntries(own) }, value }];
  });
}
