import type { StepStatus } from "../api/step-status.ts";

/** Outcome of an action on a step's object. */
export type ActionOutcome =
  /** `isRejected`: the API server rejected the action, as expected. */
  | {
      readonly kind: "done";
      readonly object?: NonNullable<StepStatus["object"]>;
      readonly isRejected?: boolean;
      readonly result?: NonNullable<StepStatus["result"]>;
    }
  | { readonly kind: "failed"; readonly reason: string; readonly message: string; readonly rejection?: Rejection }
  /** The action cannot succeed yet and is retried until the deadline of the step. `isOutage`: the API could not be reached. */
  | { readonly kind: "unavailable"; readonly message: string; readonly isOutage?: boolean };

/** How the API server rejected an action. */
export interface Rejection {
  readonly code: number;
  readonly reason: string;
  readonly message: string;
}
