import type { CreateAnswer } from "../../protocol/protocol.ts";
import type { Sandbox } from "../../api/sandbox.ts";
import type { VolumeMount } from "../../volumes/volume-mount.ts";
import { type AllocationRequest, claimsOf, type RegisteredAgent } from "../../registry/registry.ts";

/** A requested sandbox. */
export interface FastRequest {
  readonly namespace: string;
  readonly name: string;
  readonly spec: Sandbox["spec"];
  readonly labels: Readonly<Record<string, string>>;
  /** Its volumes, and the agent that has them. Default: none. */
  readonly volumes?: { readonly agent: string; readonly mounts: readonly VolumeMount[] };
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

/** The slot that a request needs. */
export function slotFor(
  { namespace, spec, volumes }: FastRequest,
  { key, except, holder }: Pick<AllocationRequest, "key" | "except" | "holder">,
): AllocationRequest {
  const slot = { key, namespace, pool: spec.poolRef, image: spec.image, ...claimsOf(spec) };
  return { ...slot, only: volumes?.agent, ...(except !== undefined && { except }), ...(holder !== undefined && { holder }) };
}

/** The stages of a create, from the clock's monotonic times at their ends and the agent's answer. */
export function timingsOf(
  { began, allocated, written, started }: Readonly<Record<"began" | "allocated" | "written" | "started", number>>,
  { start = "cold", startMs }: Pick<CreateAnswer, "start" | "startMs">,
): Readonly<Record<string, number>> {
  return {
    allocate: allocated - began,
    log: written - allocated,
    agent: started - written,
    ...(startMs !== undefined && { start: startMs }),
    // The part of `start` in which a warm slot was claimed: all of it.
    ...(startMs !== undefined && start !== "cold" && { warm: startMs }),
    total: started - began,
  };
}
