import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "../logging/logger.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { noWebhookMetrics, type WebhookMetrics } from "../metrics/webhook-metrics.ts";

/** What a manager gives its webhooks. */
export interface ManagedWebhooksContext {
  /** Its writes are not fenced by leader election. */
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  /** 0 (inclusive) to 1 (exclusive), for jitter. */
  readonly random: () => number;
  /** Name of the manager. */
  readonly name: string;
  readonly metrics: (path: string) => WebhookMetrics;
}

/** Webhooks that a manager runs: the result of `createWebhooks` of `@keelson/controller/webhooks`. */
export interface ManagedWebhooks {
  /** Starts serving, and makes the API server call the webhooks. */
  start(context: ManagedWebhooksContext): Promise<void>;
  stop(): Promise<void>;
}

/** The context of a manager's webhooks. */
export function webhookContext(
  { client, clock, log, random, name }: Omit<ManagedWebhooksContext, "metrics">,
  metrics: Metrics,
): ManagedWebhooksContext {
  return { client, clock, log, random, name, metrics: (path) => metrics.webhook?.(path) ?? noWebhookMetrics };
}
