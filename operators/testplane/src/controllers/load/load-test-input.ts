import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import type { WebhookAsk } from "../../webhooks/webhook-runner.ts";
import type { DecisionInput } from "../decision-input.ts";
import type { EventClaim } from "../test-status.ts";

/** How long a webhook may take where nothing is said, in seconds. */
export const defaultWebhookSeconds = 10;

/** What a LoadTest is decided with. */
export type LoadTestInput = DecisionInput<LoadTestSpec, LoadTestStatus>;

/** What is to be done to the objects of a LoadTest. */
export type LoadTestAct = "apply-target" | "apply-workload" | "delete-workload";

/** What follows. The status is written before anything is done, and events are told after it. */
export interface LoadTestDecision {
  readonly status: DeepReadonly<LoadTestStatus>;
  readonly act?: LoadTestAct;
  readonly asks: readonly WebhookAsk[];
  readonly events: readonly EventClaim[];
  readonly wakeAtMs?: number;
}
