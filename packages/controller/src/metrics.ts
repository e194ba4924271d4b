/* Metrics of the runtime, and their export to Prometheus. */
export type { CollectMetrics, MetricFamily, MetricSample } from "./metrics/collected-metrics.ts";
export * from "./metrics/metrics.ts";
export * from "./metrics/prometheus-metrics.ts";
export type { WebhookMetrics } from "./metrics/webhook-metrics.ts";
export type { QueueMetrics } from "./queue/work-queue.ts";
