import type { Sandbox } from "../../api/sandbox.ts";
import type { RegisteredAgent } from "../../registry/registry.ts";

/** A requested sandbox. */
export interface FastRequest {
  readonly namespace: string;
  readonly name: string;
  readonly spec: Sandbox["spec"];
  readonly labels: Readonly<Record<string, string>>;
  /** Identifies a repeated request: while the first one is pending, a second one gets the same outcome. */
  readonly requestId?: string;
}

/** The outcome of a request. `full`: no agent has a free slot, and the request had no side effects. */
export type FastOutcome =
  | {
      readonly kind: "created";
      readonly sandboxId: string;
      readonly agent: RegisteredAgent;
      readonly timings: Readonly<Record<string, number>>;
    }
  | { readonly kind: "full"; readonly message: string }
  | { readonly kind: "exists" }
  | { readonly kind: "failed"; readonly message: string };
