import { expect, test } from "vitest";
import { createPrometheusMetrics } from "./prometheus-metrics.ts";

const family = (app: string, value: number) => ({
  ...{ name: "example_bytes", help: "Bytes\nof an App", type: "gauge" as const },
  samples: [{ labels: { app }, value }],
});

test("exports what collectors read on a scrape, with one header per metric and escaped labels", async () => {
  const metrics = await createPrometheusMetrics();
  let value = 1;
  metrics.collect?.(() => [family('a"\\\n', value)]);
  const stop = metrics.collect?.(async () => [family("b", Number.POSITIVE_INFINITY)]);
  value = 2;
  const { text } = await metrics.scrape();
  expect(text).toContain(
    '# HELP example_bytes Bytes\\nof an App\n# TYPE example_bytes gauge\nexample_bytes{app="a\\"\\\\\\n"} 2\nexample_bytes{app="b"} +Inf\n',
  );
  stop?.();
  expect((await metrics.scrape()).text).not.toContain('app="b"');
});

test("a collector that fails is counted and costs only its own metrics", async () => {
  const metrics = await createPrometheusMetrics();
  metrics.collect?.(() => Promise.reject(new Error("no answer")));
  metrics.collect?.(() => [family("a", 1)]);
  const { text } = await metrics.scrape();
  expect(text).toContain('example_bytes{app="a"} 1\n');
  expect(text).toContain("keelson_metrics_collect_errors_total 1\n");
  expect(text).toContain("controller_runtime_reconcile_total");
});
