import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec, LoadTestStatus } from "../../api/load-test.ts";
import type { WebhookCall } from "../../webhooks/webhook-runner.ts";
import type { DecisionInput } from "../decision-input.ts";
import type { EventDraft } from "../test-status.ts";

/** Default timeout of a webhook call, in seconds. */
export const defaultWebhookSeconds = 10;

/** Inputs of a decision about a LoadTest. */
export type LoadTestInput = DecisionInput<LoadTestSpec, LoadTestStatus>;

/** An action on the objects of a LoadTest. */
export type LoadTestAction = "apply-target" | "apply-workload" | "read-progress" | "collect-output" | "delete-workload";

/** A decision. The status is written before the action is performed; events are recorded after the write. */
export interface LoadTestDecision {
  readonly status: DeepReadonly<LoadTestStatus>;
  readonly act?: LoadTestAction;
  readonly webhookCalls: readonly WebhookCall[];
  readonly events: readonly EventDraft[];
  readonly wakeAtMs?: number;
}
