import type { IntegrationTestSpec, IntegrationTestStatus } from "../../api/integration-test.ts";
import type { WebhookAsk } from "../../webhooks/webhook-runner.ts";
import type { DecisionInput } from "../decision-input.ts";
import type { EventClaim } from "../test-status.ts";

/** How long a webhook may take. */
export const webhookTimeoutMs = 10_000;

/** What an IntegrationTest is decided with. */
export type IntegrationTestInput = DecisionInput<IntegrationTestSpec, IntegrationTestStatus>;

/** What an IntegrationTest is decided with, and what is gathered while a decision is made. */
export interface Run {
  readonly input: IntegrationTestInput;
  readonly events: EventClaim[];
  readonly acts: { readonly index: number; readonly act: "Apply" | "Delete" }[];
  readonly asks: WebhookAsk[];
  readonly wakes: number[];
}
