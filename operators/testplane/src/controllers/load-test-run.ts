import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec, LoadTestStatus } from "../api/load-test.ts";
import type { WebhookAsk, WebhookKnowledge } from "../webhooks/webhook-runner.ts";
import type { Observation, Target } from "./target.ts";
import type { EventClaim } from "./test-status.ts";

/** How long a webhook may take where nothing is said, in seconds. */
export const defaultWebhookSeconds = 10;

/** What a LoadTest is decided with. */
export interface LoadTestInput {
  readonly spec: DeepReadonly<LoadTestSpec>;
  readonly generation: number;
  readonly namespace: string;
  readonly status: DeepReadonly<LoadTestStatus>;
  readonly observe: (target: Target) => Observation;
  readonly known: (key: string) => WebhookKnowledge | undefined;
  readonly now: number;
}

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
