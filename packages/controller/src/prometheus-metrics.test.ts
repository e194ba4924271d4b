import { describe, expect, test } from "vitest";
import { createPrometheusMetrics } from "./prometheus-metrics.ts";

describe("prometheus metrics", () => {
  test("has every series of a controller at 0 from the start, under controller-runtime's names", async () => {
    const metrics = await createPrometheusMetrics();
    metrics.controller("robots", 3);
    const { text, contentType } = await metrics.scrape();
    expect(contentType).toMatch(/^text\/plain/);
    for (const line of [
      'controller_runtime_reconcile_total{controller="robots",result="success"} 0',
      'controller_runtime_reconcile_total{controller="robots",result="requeue_after"} 0',
      'controller_runtime_reconcile_errors_total{controller="robots"} 0',
      'controller_runtime_terminal_reconcile_errors_total{controller="robots"} 0',
      'controller_runtime_reconcile_panics_total{controller="robots"} 0',
      'controller_runtime_reconcile_timeouts_total{controller="robots"} 0',
      'controller_runtime_max_concurrent_reconciles{controller="robots"} 3',
      'controller_runtime_active_workers{controller="robots"} 0',
      'workqueue_depth{name="robots",controller="robots",priority="0"} 0',
      'workqueue_adds_total{name="robots",controller="robots"} 0',
      'workqueue_retries_total{name="robots",controller="robots"} 0',
    ]) {
      expect(text).toContain(`${line}\n`);
    }
    expect(text.match(/^controller_runtime_reconcile_time_seconds_bucket/gm)?.length).toBe(41);
    expect(text.match(/^workqueue_queue_duration_seconds_bucket/gm)?.length).toBe(13);
  });

  test("counts no more than 25 priorities apart", async () => {
    const metrics = await createPrometheusMetrics();
    const controller = metrics.controller("robots", 1);
    for (let priority = 0; priority < 100; priority++) controller.depthChanged(priority, 1);
    const { text } = await metrics.scrape();
    expect(text.match(/^workqueue_depth/gm)?.length).toBe(26);
    expect(text).toContain('priority="exceeded_cardinality_limit"} 75\n');
  });

  test("computes how long work has been running when it is asked", async () => {
    const metrics = await createPrometheusMetrics();
    metrics.controller("robots", 1).watchInProgress(() => [1500, 500]);
    const { text } = await metrics.scrape();
    expect(text).toContain('workqueue_unfinished_work_seconds{name="robots",controller="robots"} 2\n');
    expect(text).toContain('workqueue_longest_running_processor_seconds{name="robots",controller="robots"} 1.5\n');
  });
});
