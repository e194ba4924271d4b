import type { DeepReadonly } from "@keelson/api-machinery";
import type { WebhookState } from "../webhooks/webhook-runner.ts";
import type { Observation, Target } from "../evaluation/target.ts";

/** Inputs of a decision, for either kind of test. */
export interface DecisionInput<Spec, Status> {
  readonly spec: DeepReadonly<Spec>;
  readonly generation: number;
  /** Name and UID of the test. Default: empty. */
  readonly name?: string;
  readonly uid?: string;
  readonly namespace: string;
  readonly status: DeepReadonly<Status>;
  readonly observe: (target: Target) => Observation;
  readonly webhookState: (key: string) => WebhookState | undefined;
  readonly now: number;
}
