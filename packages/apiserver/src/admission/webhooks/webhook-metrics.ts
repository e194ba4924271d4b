/** The result of a call of a webhook, for metrics. */
export interface WebhookObservation {
  readonly name: string;
  readonly type: "admit" | "validating";
  readonly operation: string;
  readonly durationMs: number;
  /** HTTP status: 200, that of a denial, or that of a failure. */
  readonly code: number;
  readonly outcome: "allowed" | "denied" | "failed-open" | "failed-closed";
}

/** Receives the results of webhook calls. */
export interface WebhookMetrics {
  observe(observation: WebhookObservation): void;
}

/** Ignores all results. */
export const noWebhookMetrics: WebhookMetrics = { observe: () => undefined };
