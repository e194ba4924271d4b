import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTestSpec, IntegrationTestStatus } from "../api/integration-test.ts";
import type { WebhookAsk, WebhookKnowledge } from "../webhooks/webhook-runner.ts";
import type { Observation, Target } from "./target.ts";
import type { EventClaim } from "./test-status.ts";

/** How long a webhook may take. */
export const webhookTimeoutMs = 10_000;

/** What an IntegrationTest is decided with. */
export interface IntegrationTestInput {
  readonly spec: DeepReadonly<IntegrationTestSpec>;
  readonly generation: number;
  readonly namespace: string;
  readonly status: DeepReadonly<IntegrationTestStatus>;
  readonly observe: (target: Target) => Observation;
  readonly known: (key: string) => WebhookKnowledge | undefined;
  readonly now: number;
}

/** What an IntegrationTest is decided with, and what is gathered while a decision is made. */
export interface Run {
  readonly input: IntegrationTestInput;
  readonly events: EventClaim[];
  readonly acts: { readonly index: number; readonly act: "Apply" | "Delete" }[];
  readonly asks: WebhookAsk[];
  readonly wakes: number[];
}
