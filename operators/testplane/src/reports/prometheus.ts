import type { TestReport } from "./report.ts";

interface Sample {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

interface Metric {
  readonly name: string;
  readonly help: string;
  readonly samples: (test: TestReport) => readonly Sample[];
}

const one = (value: number | undefined): readonly Sample[] => (value === undefined ? [] : [{ value }]);

const metrics: readonly Metric[] = [
  {
    name: "testplane_test_success",
    help: "Whether the test succeeded.",
    samples: ({ isSuccess }) => one(isSuccess ? 1 : 0),
  },
  {
    name: "testplane_test_info",
    help: "Verdict of the test. The value is 1.",
    samples: ({ verdict }) => [{ labels: { verdict }, value: 1 }],
  },
  { name: "testplane_test_duration_seconds", help: "Duration of the test.", samples: ({ seconds }) => one(seconds) },
  { name: "testplane_rounds", help: "Number of finished rounds.", samples: ({ rounds }) => one(rounds?.completed) },
  { name: "testplane_rounds_failed", help: "Number of failed rounds.", samples: ({ rounds }) => one(rounds?.failed) },
  { name: "testplane_load_requests", help: "Number of requests of a load test.", samples: ({ load }) => one(load?.requests) },
  { name: "testplane_load_failed_requests", help: "Number of failed requests.", samples: ({ load }) => one(load?.failed) },
  {
    name: "testplane_load_unsent_requests",
    help: "Number of requests that could not be sent.",
    samples: ({ load }) => one(load?.notSent),
  },
  {
    name: "testplane_load_requests_per_second",
    help: "Throughput of a load test.",
    samples: ({ load }) => one(load?.requestsPerSecond),
  },
  {
    name: "testplane_load_latency_seconds",
    help: "Latency of a load test by quantile.",
    samples: ({ load }) =>
      (load?.percentiles ?? []).map(({ percentile, milliseconds }) => ({
        labels: { quantile: String(Number((percentile / 100).toPrecision(6))) },
        value: milliseconds / 1_000,
      })),
  },
];

/** Renders a report in Prometheus' text format 0.0.4, such as for a Pushgateway or the textfile collector. */
export function prometheusReport(tests: readonly TestReport[]): string {
  const lines: string[] = [];
  for (const { name, help, samples } of metrics) {
    const found = tests.flatMap((test) =>
      samples(test).map(({ labels, value }) => `${name}{${labelText({ ...identityOf(test), ...labels })}} ${value}`),
    );
    if (found.length > 0) lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, ...found);
  }
  return `${lines.join("\n")}\n`;
}

/** The labels of a test's series. They do not change with its result, so that series continue. */
const identityOf = ({ kind, namespace, name }: TestReport): Readonly<Record<string, string>> => ({
  kind,
  ...(namespace === undefined ? {} : { namespace }),
  name,
});

const labelText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(",");

const escaped = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
