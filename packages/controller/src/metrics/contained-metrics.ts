import type { Logger } from "../logging/logger.ts";
import type { ControllerMetrics, Metrics } from "./metrics.ts";
import type { WebhookMetrics } from "./webhook-metrics.ts";

/** Metrics that never throw: a lost value must not cost a reconcile or a lease. The first error of each metric is logged. */
export function containedMetrics(metrics: Metrics, log: Logger): Metrics {
  const failed = new Set<string>();
  const contained = <A extends readonly unknown[]>(name: string, count: (...args: A) => void) => {
    return (...args: A): void => {
      try {
        count(...args);
      } catch (error) {
        if (failed.has(name)) return;
        failed.add(name);
        log.error({ err: error, metric: name }, `metric ${name} failed; continuing without it`);
      }
    };
  };
  return {
    controller(name, maxConcurrentReconciles) {
      const own: { metrics?: ControllerMetrics } = {};
      contained("controller", () => {
        own.metrics = metrics.controller(name, maxConcurrentReconciles);
      })();
      return {
        added: contained("added", () => own.metrics?.added()),
        depthChanged: contained("depthChanged", (priority, by) => own.metrics?.depthChanged(priority, by)),
        waited: contained("waited", (ms) => own.metrics?.waited(ms)),
        worked: contained("worked", (ms) => own.metrics?.worked(ms)),
        retried: contained("retried", () => own.metrics?.retried()),
        reconciled: contained("reconciled", (result, ms) => own.metrics?.reconciled(result, ms)),
        terminalError: contained("terminalError", () => own.metrics?.terminalError()),
        panicked: contained("panicked", () => own.metrics?.panicked()),
        timedOut: contained("timedOut", () => own.metrics?.timedOut()),
        activeWorkers: contained("activeWorkers", (by) => own.metrics?.activeWorkers(by)),
        watchInProgress: contained("watchInProgress", (read) => own.metrics?.watchInProgress(read)),
      };
    },
    watchCache: contained("watchCache", (read) => metrics.watchCache(read)),
    leading: contained("leading", (name, isLeader) => metrics.leading(name, isLeader)),
    leaderSlowPath: contained("leaderSlowPath", (name) => metrics.leaderSlowPath(name)),
    webhook(path) {
      const own: { metrics?: WebhookMetrics | undefined } = {};
      contained("webhook", () => {
        own.metrics = metrics.webhook?.(path);
      })();
      return {
        served: contained("served", (code, ms) => own.metrics?.served(code, ms)),
        inFlight: contained("inFlight", (by) => own.metrics?.inFlight(by)),
        panicked: contained("panicked", () => own.metrics?.panicked()),
      };
    },
  };
}
