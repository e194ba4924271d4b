import { createVirtualClock } from "@keelson/api-machinery/testing";
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

test("a collector that hangs or returns malformed samples costs only its own metrics, and the reason is reported", async () => {
  const clock = createVirtualClock();
  const errors: unknown[] = [];
  const metrics = await createPrometheusMetrics({ clock, onCollectError: (error) => errors.push(error) });
  metrics.collect?.(() => new Promise(() => {}));
  metrics.collect?.(() => [{ ...family("bad", 1), samples: [{ labels: { app: undefined as unknown as string }, value: 1 }] }]);
  metrics.collect?.(() => {
    throw new Error("no answer");
  });
  metrics.collect?.(() => [family("a", 1)]);
  const scrape = metrics.scrape();
  await clock.advance(5000);
  const { text } = await scrape;
  expect(text).toContain('example_bytes{app="a"} 1\n');
  expect(text).toContain("keelson_metrics_collect_errors_total 3\n");
  expect(errors.map(String)).toEqual([
    "Error: a metrics collector did not return within 5000 ms",
    expect.stringContaining("TypeError"),
    "Error: no answer",
  ]);
  expect(clock.pendingTimers).toBe(0);
});
