import type { AccumulatedHistogram, AccumulatedNumber } from "./accumulated-metrics.ts";

/** Metrics of one webhook. */
export interface WebhookMetrics {
  /** A request was answered with this HTTP status. */
  served(code: number, ms: number): void;
  /** Changes the number of requests in progress. */
  inFlight(by: number): void;
  /** A handler threw an error that indicates a bug. */
  panicked(): void;
}

/** Metrics that are discarded. */
export const noWebhookMetrics: WebhookMetrics = {
  served: () => {},
  inFlight: () => {},
  panicked: () => {},
};

/** The series of all webhooks, under controller-runtime's names. */
export interface WebhookSeries {
  readonly requests: AccumulatedNumber;
  readonly inFlight: AccumulatedNumber;
  readonly panics: AccumulatedNumber;
  readonly seconds: AccumulatedHistogram;
}

/** The metrics of the webhook at `path`. */
export function webhookMetrics(series: WebhookSeries, path: string): WebhookMetrics {
  const inFlight = series.inFlight.child(path);
  const panics = series.panics.child();
  const seconds = series.seconds.child(path);
  return {
    served(code, ms) {
      series.requests.child(path, String(code)).value++;
      seconds.observe(ms / 1000);
    },
    inFlight: (by) => void (inFlight.value += by),
    panicked: () => void panics.value++,
  };
}
