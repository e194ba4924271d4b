import type { IntegrationTestSpec, IntegrationTestStatus } from "../../api/integration-test.ts";
import type { KeelsonProgram } from "../../programs/keelson-program.ts";
import type { WebhookCall } from "../../webhooks/webhook-runner.ts";
import type { DecisionInput } from "../decision-input.ts";
import type { EventDraft } from "../test-status.ts";
import type { StepAct } from "./step-decision.ts";

/** Timeout of a webhook call. */
export const webhookTimeoutMs = 10_000;

/** Inputs of a decision about an IntegrationTest. */
export interface IntegrationTestInput extends DecisionInput<IntegrationTestSpec, IntegrationTestStatus> {
  /** The tool of the steps `http`, `logs`, `exec` and `portForward`. */
  readonly program: KeelsonProgram;
}

/** Inputs of one decision and the effects collected while it is made. */
export interface Turn {
  readonly input: IntegrationTestInput;
  readonly events: EventDraft[];
  readonly actions: { readonly index: number; readonly act: StepAct }[];
  readonly webhookCalls: WebhookCall[];
  readonly wakes: number[];
}
