/** Usage of a container since its start. */
export interface ContainerFigures {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly cpuSeconds: number;
  readonly memoryBytes: number;
  /** Seconds since the epoch. */
  readonly startSeconds: number;
}

/** A sample of a node and its containers. */
export interface ResourceFigures {
  /** Time of the sample in ms since the epoch. */
  readonly at: number;
  readonly node: { readonly cpuSeconds: number; readonly memoryBytes: number };
  readonly containers: readonly ContainerFigures[];
}

type Line = readonly [labels: Readonly<Record<string, string>>, value: number];

/** The kubelet's `/metrics/resource` in Prometheus' text format, which metrics-server reads. Without a sample it has no values. */
export function resourceText(figures: ResourceFigures | undefined): string {
  const { node, containers = [], at = 0 } = figures ?? {};
  const pods = podsOf(containers);
  const ofContainers = (value: (each: ContainerFigures) => number): readonly Line[] =>
    containers.map((each) => [{ container: each.container, namespace: each.namespace, pod: each.pod }, value(each)]);
  const family = (name: string, type: "counter" | "gauge", help: string, lines: readonly Line[]): string =>
    `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.map(([labels, value]) => `${name}${labelsText(labels)} ${value} ${at}\n`).join("")}`;
  const cpu = "Cumulative CPU time in core-seconds";
  const memory = "Current working set in bytes";
  return [
    family(
      "container_cpu_usage_seconds_total",
      "counter",
      cpu,
      ofContainers(({ cpuSeconds }) => cpuSeconds),
    ),
    family(
      "container_memory_working_set_bytes",
      "gauge",
      memory,
      ofContainers(({ memoryBytes }) => memoryBytes),
    ),
    family(
      "container_start_time_seconds",
      "gauge",
      "Start of the container in seconds since the epoch",
      ofContainers(({ startSeconds }) => startSeconds),
    ),
    family("node_cpu_usage_seconds_total", "counter", cpu, node === undefined ? [] : [[{}, node.cpuSeconds]]),
    family("node_memory_working_set_bytes", "gauge", memory, node === undefined ? [] : [[{}, node.memoryBytes]]),
    family(
      "pod_cpu_usage_seconds_total",
      "counter",
      cpu,
      pods.map(({ labels, cpuSeconds }) => [labels, cpuSeconds]),
    ),
    family(
      "pod_memory_working_set_bytes",
      "gauge",
      memory,
      pods.map(({ labels, memoryBytes }) => [labels, memoryBytes]),
    ),
    `# HELP resource_scrape_error 1 until the first sample, 0 afterwards\n# TYPE resource_scrape_error gauge\nresource_scrape_error ${figures === undefined ? 1 : 0}\n`,
  ].join("");
}

function podsOf(containers: readonly ContainerFigures[]) {
  const pods = new Map<string, { labels: { namespace: string; pod: string }; cpuSeconds: number; memoryBytes: number }>();
  for (const { namespace, pod, cpuSeconds, memoryBytes } of containers) {
    const key = `${namespace}/${pod}`;
    const sum = pods.get(key) ?? { labels: { namespace, pod }, cpuSeconds: 0, memoryBytes: 0 };
    pods.set(key, { ...sum, cpuSeconds: sum.cpuSeconds + cpuSeconds, memoryBytes: sum.memoryBytes + memoryBytes });
  }
  return [...pods.values()];
}

/** Names of Pods and containers have no characters that must be escaped. */
function labelsText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
