import type { SandboxStatus } from "../protocol/protocol.ts";

/** The Sandbox object that an agent's sandbox refers to. `unknown`: the API did not respond. */
export type Claim =
  | { readonly kind: "absent" }
  | { readonly kind: "present"; readonly uid: string; readonly sandboxIds: readonly string[] }
  | { readonly kind: "unknown" };

/** The input of the decision. */
export interface JanitorObservation {
  readonly status: SandboxStatus;
  readonly claim: Claim;
  /** Whether the fast path has not yet written its object. */
  readonly isPending: boolean;
  readonly now: number;
  /** Minimum age of an orphan. */
  readonly protectionMs: number;
}

/**
 * Why a sandbox on an agent is an orphan, or undefined if it must be kept. Fails closed: whenever something is unknown, the sandbox is
 * kept.
 */
export function findOrphanReason({ status, claim, isPending, now, protectionMs }: JanitorObservation): string | undefined {
  if (isPending || claim.kind === "unknown" || status.phase === "terminating") return undefined;
  if (status.claimName === "" || status.namespace === "") return undefined;
  if (now - status.createdAt * 1000 < protectionMs) return undefined;
  if (claim.kind === "absent") return `Sandbox ${status.namespace}/${status.claimName} not found`;
  if (claim.sandboxIds.includes(status.sandboxId)) return undefined;
  if (status.claimUid !== "" && status.claimUid !== claim.uid) {
    return `Sandbox ${status.namespace}/${status.claimName} was recreated with another uid`;
  }
  return `Sandbox ${status.namespace}/${status.claimName} has a newer instance`;
}
