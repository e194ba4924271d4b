import type { DeepReadonly } from "@keelson/api-machinery";
import type { WebhookKnowledge } from "../webhooks/webhook-runner.ts";
import type { Observation, Target } from "../evaluation/target.ts";

/** What a test of either kind is decided with. */
export interface DecisionInput<Spec, Status> {
  readonly spec: DeepReadonly<Spec>;
  readonly generation: number;
  readonly namespace: string;
  readonly status: DeepReadonly<Status>;
  readonly observe: (target: Target) => Observation;
  readonly known: (key: string) => WebhookKnowledge | undefined;
  readonly now: number;
}
