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
 * Metrics of programs with the labels of their Pods. A label of the program with the name of one of these, or of a scrape target, gets the prefix
 * `exported_`, as in Prometheus. Malformed metrics and metrics with names of the operator's own are left out. Of more than 5000 samples of a Pod, the
 * largest families lose some, and `keelson_middleware_metrics_truncated` is 1. Pure.
 */
export function programMetrics(reports: readonly ReportedMetrics[]): readonly MetricFamily[] {
  const merged = new Map<string, { readonly family: MetricFamily; readonly samples: MetricSample[] }>();
  const truncated: MetricSample[] = [];
  for (const { pod, families } of reports) {
    const valid = validFamilies(families, pod);
    const limit = limitOf(valid.map(({ samples }) => samples.length));
    let left = maxSamples;
    let isTruncated = false;
    for (const { family, samples } of valid) {
      // The first type applies to all: an App must not be able to hide the metrics of others.
      const entry = merged.get(family.name) ?? { family, samples: [] };
      merged.set(family.name, entry);
      const kept = samples.slice(0, Math.min(limit, left));
      left -= kept.length;
      isTruncated ||= kept.length < samples.length;
      entry.samples.push(...kept);
    }
    if (isTruncated) truncated.push({ labels: pod, value: 1 });
  }
  const all = [...merged.values()].map(({ family, samples }) => ({ ...family, help: family.help.slice(0, 1_000), samples }));
  return truncated.length === 0 ? all : [...all, { ...truncatedFamily, samples: truncated }];
}

const truncatedFamily = {
  name: "keelson_middleware_metrics_truncated",
  help: "Whether samples of the program were left out because there are too many. Missing if none were.",
  type: "gauge",
} as const;

interface ValidFamily {
  readonly family: MetricFamily;
  readonly samples: readonly MetricSample[];
}

function validFamilies(families: readonly MetricFamily[], pod: Readonly<Record<string, string>>): readonly ValidFamily[] {
  const names = new Set<string>();
  return families.flatMap((family) => {
    const { name } = family;
    if (name.length > maxNameLength || !metricName.test(name) || ownNames.test(name) || names.has(name)) return [];
    names.add(name);
    return [{ family, samples: samplesOf(family, pod) }];
  });
}

/** The most samples of one family, so that small families are complete and all together have at most `maxSamples`. */
function limitOf(sizes: readonly number[]): number {
  let left = maxSamples;
  const ascending = [...sizes].sort((a, b) => a - b);
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - index));
    if (size > share) return Math.max(share, 1);
    left -= size;
  }
  return maxSamples;
}

function samplesOf({ samples }: MetricFamily, pod: Readonly<Record<string, string>>): readonly MetricSample[] {
  const series = new Set<string>();
  const isReserved = (name: string): boolean => Object.hasOwn(pod, name) || targetLabels.has(name);
  return samples.flatMap(({ labels, value }) => {
    const own = Object.entries(labels).map(([name, text]) => [isReserved(name) ? `exported_${name}` : name, text] as const);
    if (own.some(([name, text]) => !labelName.test(name) || text.length > maxLabelLength)) return [];
    const all = { ...pod, ...Object.fromEntries(own) };
    // Prometheus rejects a whole scrape with a duplicate series, and an empty label is the same as none.
    const key = JSON.stringify(
      Object.entries(all)
        .filter(([, text]) => text !== "")
        .sort(),
    );
    if (series.has(key)) return [];
    series.add(key);
    return [{ labels: all, value }];
  });
}
