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
  /** Time of the test. */
  readonly now: number;
  /** What the wall clock, which times of other objects are of, is ahead of `now`. Default: 0. */
  readonly wallOffsetMs?: number;
}
